/* SPDX-License-Identifier: Apache-2.0 */
#include "capture/outside/json.h"

#include <stdio.h>

/* Length of the UTF-8 sequence at `at`; 0 where it is none. */
static int sequence_length(const unsigned char *at)
{
	int length = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 :
		     at[0] < 0xf5 ? 4 : 0;

	for (int i = 1; i < length; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
	    (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
		return 0;
	return length;
}

void vc_json_text(const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	putchar('"');
	while (*at) {
		int length = sequence_length(at);

		if (length == 0)
			fputs("\xef\xbf\xbd", stdout);
		else if (*at == '"' || *at == '\\')
			printf("\\%c", *at);
		else if (*at < ' ')
			printf("\\u%04x", *at);
		else
			fwrite(at, 1, (size_t)length, stdout);
		at += length ? length : 1;
	}
	putchar('"');
}
