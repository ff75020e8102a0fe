/* SPDX-License-Identifier: Apache-2.0 */
/* A string as JSON on standard output: quoted, escaped, whatever bytes it holds. */
#ifndef VC_CAPTURE_OUTSIDE_JSON_H
#define VC_CAPTURE_OUTSIDE_JSON_H

/** Prints `text` with its quotes. Bytes that are not UTF-8 become U+FFFD. */
void vc_json_text(const char *text);

#endif
