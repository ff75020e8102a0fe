/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text for people: a growing buffer, and how bytes, counts, shares, times and names are written.
 *
 * Everything is appended to a struct vc_text. When memory runs out the buffer keeps what it has and
 * says so in `failed`; callers look once, at the end. Strings that come from a file may hold
 * anything: they go through vc_text_escaped, which lets nothing through that a terminal obeys.
 * Locale independent; not thread safe per buffer.
 */
#ifndef VC_ANALYZE_TEXT_H
#define VC_ANALYZE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vc_text {
	char *data;        /* NUL-terminated once anything was added; NULL before */
	size_t length;
	size_t capacity;
	bool failed;       /* memory ran out: text is missing */
};

/** How sizes are written. */
enum vc_text_exact {
	VC_TEXT_ROUNDED,   /* 2.34 GiB */
	VC_TEXT_EXACT,     /* 2,512,555,868 B */
};

void vc_text_deinit(struct vc_text *text);
/** The text so far, "" at the start; valid until the next call that adds. */
const char *vc_text_get(const struct vc_text *text);
void vc_text_clear(struct vc_text *text);
void vc_text_bytes_raw(struct vc_text *text, const char *bytes, size_t length);
void vc_text_add(struct vc_text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void vc_text_add_list(struct vc_text *text, const char *format, va_list list)
	__attribute__((format(printf, 2, 0)));

/** "49,000" */
void vc_text_number(struct vc_text *text, uint64_t value);
/** "+49,000", "-2", "0" */
void vc_text_signed_number(struct vc_text *text, int64_t value);
/** "about" figures: four significant digits, with separators. */
void vc_text_about(struct vc_text *text, double value);
/** "2.34 GiB", "50.0 KiB", "512 B", "0" */
void vc_text_bytes(struct vc_text *text, uint64_t bytes, enum vc_text_exact exact);
/** The same with a sign: "+2.34 GiB", "-0.40 MiB", "0" */
void vc_text_signed_bytes(struct vc_text *text, int64_t bytes, enum vc_text_exact exact);
/** A rate that need not be whole: "50.0 KiB", "0.50 B" */
void vc_text_rate(struct vc_text *text, double bytes);
/** Tenths of a percent: 164 is "16.4 %" */
void vc_text_share(struct vc_text *text, int64_t tenths);
/** "6 d 3 h", "12 min 5 s", "0.21 s" */
void vc_text_duration(struct vc_text *text, uint64_t nanoseconds);
/** "2026-11-30 08:14:07Z"; "at an unknown time" for 0 */
void vc_text_time(struct vc_text *text, uint64_t nanoseconds);

/**
 * Text from a file, harmless: control characters, terminal escapes, characters that turn the
 * direction of writing and bytes that are not UTF-8 become \xNN or \u{NNNN}.
 */
void vc_text_escaped(struct vc_text *text, const char *string);
/** The content of a JSON string, without the quotes; bytes that are not UTF-8 become U+FFFD. */
void vc_text_json(struct vc_text *text, const char *string);
/** A field of a CSV file, quoted where needed. */
void vc_text_csv(struct vc_text *text, const char *string);

/** Columns a text takes on a terminal: one for each character of UTF-8. */
size_t vc_text_columns(const char *string);

/** "1MiB", "512", "1.5 GiB", "10 kB" to bytes. 0, or VC_E_INVALID. */
int vc_text_parse_bytes(const char *string, uint64_t *ret);
/** A whole number with nothing after it. 0, or VC_E_INVALID. */
int vc_text_parse_number(const char *string, uint64_t *ret);
/** An address, in hexadecimal with or without 0x. 0, or VC_E_INVALID. */
int vc_text_parse_address(const char *string, uint64_t *ret);

/**
 * Shares of a whole in tenths of a percent such that they add up to exactly 1000 when the values
 * add up to the whole: rounded down, then the largest remainders get one more. 0, VC_E_NO_MEMORY.
 */
int vc_text_shares(const int64_t *values, size_t count, int64_t whole, int64_t *ret);

#endif
