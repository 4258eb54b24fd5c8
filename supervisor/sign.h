#ifndef SUPERVISOR_SIGN_H
#define SUPERVISOR_SIGN_H

/*
 * The commands that make signatures (SPEC 2): `cyberos skill keygen` and
 * `cyberos skill sign`. argv[0] is the last word of the command; the result is
 * the exit status.
 */
int	sign_keygen(int argc, char **argv);
int	sign_skill(int argc, char **argv);

#endif
