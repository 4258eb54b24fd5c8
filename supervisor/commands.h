#ifndef SUPERVISOR_COMMANDS_H
#define SUPERVISOR_COMMANDS_H

/*
 * The commands behind the table in main.c. argv[0] is the last word of the
 * command; the result is the exit status.
 */
int	run_main(int argc, char **argv);
int	supervise_main(int argc, char **argv);
int	inspect_status(int argc, char **argv);
int	inspect_metrics(int argc, char **argv);
int	inspect_tools(int argc, char **argv);
int	ledger_verify(int argc, char **argv);
int	ledger_replay(int argc, char **argv);
int	ledger_tail(int argc, char **argv);
int	sweep_main(int argc, char **argv);
int	quarantine_main(int argc, char **argv);
int	doctor_main(int argc, char **argv);
int	bench_main(int argc, char **argv);
int	client_call(int argc, char **argv);
int	scaffold_main(int argc, char **argv);
int	try_main(int argc, char **argv);
int	import_main(int argc, char **argv);

#endif
