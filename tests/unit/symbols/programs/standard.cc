/* SPDX-License-Identifier: Apache-2.0 */
/* Much inlined code of the standard library, to compare with another symbolizer. */
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>

template <typename T, int N> struct pool {
	std::vector<std::unique_ptr<T>> items;
	T *take(int count)
	{
		for (int i = 0; i < count; i++)
			items.push_back(std::make_unique<T>(N + i));
		return items.back().get();
	}
};

int main(int count, char **arguments)
{
	std::map<std::string, std::vector<int>> names;
	std::unordered_map<int, std::string> numbers;
	std::regex pattern("([a-z]+)(\\d+)");
	pool<double, 3> doubles;
	std::vector<std::string> sorted;

	for (int i = 0; i < 100; i++) {
		names[std::to_string(i)].push_back(i);
		numbers[i] = arguments[0];
	}
	for (const auto &entry : names)
		sorted.push_back(entry.first);
	std::sort(sorted.begin(), sorted.end(),
		  [](const std::string &a, const std::string &b) { return a > b; });
	std::function<int(int)> add = [count](int value) { return value + count; };
	std::cout << *doubles.take(count) << std::regex_match(sorted[0], pattern) <<
		add(int(numbers.size())) << "\n";
}
