#ifndef SUPERVISOR_AUTHOR_H
#define SUPERVISOR_AUTHOR_H

/*
 * What authors of skills run by hand (SPEC 1). argv[0] is the name of the
 * subcommand; the result is the exit status. getopt's state is used.
 *
 * validate DIR... [--json] [--broker-version V] [--config FILE]: 0 all valid,
 * 6 one is not, else 1 one has no SKILL.md; 2 usage, 3 configuration.
 */
int author_validate(int argc, char **argv);

#endif
