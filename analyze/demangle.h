/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ names of linker symbols, by the demangler of the C++ runtime, and those of Rust, which are
 * told from C++ by their form.
 *
 * A name can be made to expand without limit by referring to its own parts; such names, and
 * overlong ones, are refused, so that a hostile file costs neither time nor memory. Thread safe.
 */
#ifndef VC_ANALYZE_DEMANGLE_H
#define VC_ANALYZE_DEMANGLE_H

#ifdef __cplusplus
extern "C" {
#endif

/** Demangled name with template arguments, to be freed; NULL if it is not one, or refused. */
char *vc_demangle(const char *name);

#ifdef __cplusplus
}
#endif

#endif
