/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rust names of linker symbols, of both kinds: v0 ("_R...") and the older one that looks like C++
 * ("_ZN...17h0123456789abcdefE").
 *
 * Written as a person would write them: without hashes of crates and of the older kind, and without
 * types of constants. Depth, steps and length are bounded, so that a hostile name costs neither
 * time nor memory. Thread safe.
 */
#ifndef VC_ANALYZE_DEMANGLE_RUST_H
#define VC_ANALYZE_DEMANGLE_RUST_H

#ifdef __cplusplus
extern "C" {
#endif

/** Demangled name, to be freed; NULL if it is not a Rust name, or refused. */
char *vc_demangle_rust(const char *name);

#ifdef __cplusplus
}
#endif

#endif
