/*
 * A program of the build: prints the filters of seccomp.c, compiled for this
 * machine, as the C source of the table in filter.h. A name in the tables that
 * no machine knows, or a filter that cannot be made, ends the build.
 */

#include "enforce/filter.h"

#include <err.h>
#include <seccomp.h>
#include <stdio.h>

static void
print_code(unsigned index, const struct seccomp_program *p)
{
	unsigned i;

	printf("static const struct sock_filter filter_%u[] = {\n", index);
	for (i = 0; i < p->len; i++)
		printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", p->code[i].code,
		    p->code[i].jt, p->code[i].jf, p->code[i].k);
	printf("};\n\n");
}

int
main(void)
{
	struct seccomp_program p[FILTER_COUNT];
	char name[32];
	unsigned role, form, i;

	if (seccomp_trouble(name))
		errx(1, "the rows of %s in the tables do not fit", name);
	printf("#include \"enforce/filter.h\"\n\n");
	for (role = SECCOMP_SKILL; role < SECCOMP_ROLES; role++) {
		for (form = 0; form < FILTER_FORMS(role); form++) {
			i = filter_index(role, (form & 2) != 0, form & 1);
			if (seccomp_compile(seccomp_arch_native(), role,
				(form & 2) != 0, form & 1, &p[i]) == -1)
				err(1, "filter %u", i);
			print_code(i, &p[i]);
		}
	}
	printf("const struct seccomp_program filter_table[FILTER_COUNT] = {\n");
	for (i = 0; i < FILTER_COUNT; i++) {
		printf("\t{ filter_%u, %u },\n", i, p[i].len);
		seccomp_program_clear(&p[i]);
	}
	printf("};\n");
	return 0;
}
