/* SPDX-License-Identifier: Apache-2.0 */
/* entries.c: builds the table of one family's portable kernel entries, for one type and instruction
 * level. The includer names the type (elem.h) and the family: FAMILY_TABLE (index_entries),
 * FAMILY_HEADER (<ops/index/kernel.h>) and FAMILY_LIST (<ops/index/kernels.def>). ENTRIES_WIDE is
 * set for the levels above the portable one, which have no ENTRY_PLAIN entries. */
#define HOST_ENTRY static inline /* an entry that the table does not name is not compiled */
#include FAMILY_HEADER

typedef void host_entry(const void *args, void *const *operand, i64 begin, i64 count);
extern host_entry *const NAME(FAMILY_TABLE)[];

#define ENTRY(name) _Static_assert((int)FORM_##name == FORM_SPANS, #name " is an ENTRY_TEAM");
#define ENTRY_TEAM(name) _Static_assert((int)FORM_##name == FORM_TEAMS, #name " is an ENTRY");
#define ENTRY_PLAIN ENTRY
#define ENTRY_TEAM_PLAIN ENTRY_TEAM
#define ROW(op, launch, number, T, U, I, R, flags)
#define ROW_DEVICE(op, launch, number, T, U, I, R, flags)
#define ROW_DEVICE_PLANNED(op, launch, number, T, U, I, R, flags)
#define ROW_MATH(op, launch, number, T, U, I, R, flags)
#define ROW_PLANNED(op, launch, number, T, U, I, R, flags)
#define ROW_MATH_PLANNED(op, launch, number, T, U, I, R, flags)
#include FAMILY_LIST
#undef ENTRY
#undef ENTRY_TEAM
#define ENTRY(name) NAME(name),
#define ENTRY_TEAM(name) NAME(name),
#ifdef ENTRIES_WIDE
#undef ENTRY_PLAIN
#undef ENTRY_TEAM_PLAIN
#define ENTRY_PLAIN(name) 0,
#define ENTRY_TEAM_PLAIN(name) 0,
#endif
host_entry *const NAME(FAMILY_TABLE)[] = {
#include FAMILY_LIST
};
