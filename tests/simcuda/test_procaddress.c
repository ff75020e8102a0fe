/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress and the exports, through dlopen alone: nothing here links with the driver.
 * The path of the library is the first argument.
 */
#include "sim_test.h"

#include <dlfcn.h>

typedef CUresult (*first_abi)(const char *, void **, int, cuuint64_t);
typedef CUresult (*second_abi)(const char *, void **, int, cuuint64_t,
			       CUdriverProcAddressQueryResult *);

static void *library;
static first_abi ask_first;
static second_abi ask;

static void *symbol(const char *name)
{
	void *address = dlsym(library, name);

	assert_non_null(address);
	return address;
}

static void expect(const char *name, int version, cuuint64_t flags, const char *exported)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
	void *address = NULL, *first = NULL;

	assert_success(ask(name, &address, version, flags, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
	assert_ptr_equal(address, symbol(exported));
	assert_success(ask(name, &address, version, flags, NULL));
	assert_success(ask_first(name, &first, version, flags));
	assert_ptr_equal(first, address);
}

static void expect_none(const char *name, int version, int why)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
	void *address = &status;

	assert_success(ask(name, &address, version, 0, &status));
	assert_int_equal(status, why);
	assert_null(address);
	address = &status;
	assert_success(ask(name, &address, version, 0, NULL));
	assert_null(address);
	address = &status;
	assert_result(ask_first(name, &address, version, 0), CUDA_ERROR_NOT_FOUND);
	assert_ptr_equal(address, &status); /* untouched */
}

static void versions(void **state)
{
	(void)state;
	expect("cuMemAlloc", 2000, 0, "cuMemAlloc");
	expect("cuMemAlloc", 3010, 0, "cuMemAlloc");
	expect("cuMemAlloc", 3020, 0, "cuMemAlloc_v2");
	expect("cuMemAlloc", 13000, 0, "cuMemAlloc_v2");
	expect("cuMemAlloc", 99000, 0, "cuMemAlloc_v2");
	expect("cuCtxCreate", 2000, 0, "cuCtxCreate");
	expect("cuCtxCreate", 3020, 0, "cuCtxCreate_v2");
	expect("cuCtxCreate", 11040, 0, "cuCtxCreate_v3");
	expect("cuCtxCreate", 12049, 0, "cuCtxCreate_v3");
	expect("cuCtxCreate", 12050, 0, "cuCtxCreate_v4");
	expect("cuDevicePrimaryCtxRelease", 7000, 0, "cuDevicePrimaryCtxRelease");
	expect("cuDevicePrimaryCtxRelease", 11000, 0, "cuDevicePrimaryCtxRelease_v2");
	expect("cuMemHostRegister", 4000, 0, "cuMemHostRegister");
	expect("cuMemHostRegister", 6050, 0, "cuMemHostRegister_v2");
	expect("cuGetProcAddress", 11030, 0, "cuGetProcAddress");
	expect("cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2");
	expect("cuCtxGetDevice", 12999, 0, "cuCtxGetDevice");
	expect("cuCtxGetDevice", 13000, 0, "cuCtxGetDevice_v2");
	expect("cuGraphLaunch", 10000, 0, "cuGraphLaunch");
	expect("cuGreenCtxDestroy", 12040, 0, "cuGreenCtxDestroy"); /* not supported */
}

static void per_thread_stream(void **state)
{
	const cuuint64_t legacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
	const cuuint64_t thread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

	(void)state;
	expect("cuMemAllocAsync", 11020, 0, "cuMemAllocAsync");
	expect("cuMemAllocAsync", 11020, legacy, "cuMemAllocAsync");
	expect("cuMemAllocAsync", 11020, thread, "cuMemAllocAsync_ptsz");
	expect("cuMemcpyHtoD", 13000, thread, "cuMemcpyHtoD_v2_ptds");
	expect("cuLaunchKernel", 13000, thread, "cuLaunchKernel_ptsz");
	expect("cuMemAlloc", 13000, thread, "cuMemAlloc_v2"); /* has no twin */
	assert_result(ask("cuMemAlloc", &(void *){ NULL }, 13000, 3, NULL),
		      CUDA_ERROR_INVALID_VALUE);
}

static void not_there(void **state)
{
	(void)state;
	expect_none("cuMemAlloc_v2", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect_none("cuMemAllocAsync_ptsz", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect_none("cuNoSuchThing", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect_none("cudnnCreate", 13000, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect_none("", 0, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect_none("cuMemAllocAsync", 11010, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	expect_none("cuMemAlloc", 0, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_result(ask(NULL, &(void *){ NULL }, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_result(ask("cuInit", NULL, 13000, 0, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void every_symbol(void **state)
{
	static const struct { const char *name, *base; int version; const char *mode; } rows[] = {
#define SIM_SYMBOL(name, base, version, mode) { #name, #base, version, #mode },
#include "symbols.def"
#undef SIM_SYMBOL
	};

	(void)state;
	assert_int_equal(sizeof(rows) / sizeof(rows[0]), 637);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		expect(rows[i].base, rows[i].version, rows[i].mode[0] == 'T' ? 2 : 0,
		       rows[i].name);
}

static void unsupported_and_refused(void **state)
{
	CUresult (*init)(unsigned int) = (CUresult(*)(unsigned int))symbol("cuInit");
	CUresult (*surface)(unsigned long long) =
		(CUresult(*)(unsigned long long))symbol("cuSurfObjectDestroy");
	CUresult (*table)(const void **, const CUuuid *) =
		(CUresult(*)(const void **, const CUuuid *))symbol("cuGetExportTable");
	CUuuid id = { "anything at all" };
	const void *answer = &id;

	(void)state;
	assert_result(surface(0), CUDA_ERROR_NOT_INITIALIZED);
	assert_success(init(0));
	assert_result(surface(0), CUDA_ERROR_NOT_SUPPORTED);
	assert_result(table(&answer, &id), CUDA_ERROR_NOT_FOUND);
	assert_null(answer);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions),
		cmocka_unit_test(per_thread_stream),
		cmocka_unit_test(not_there),
		cmocka_unit_test(every_symbol),
		cmocka_unit_test(unsupported_and_refused),
	};

	if (argc != 2)
		return 64;
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return 1;
	ask_first = (first_abi)dlsym(library, "cuGetProcAddress");
	ask = (second_abi)dlsym(library, "cuGetProcAddress_v2");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
