"""Run a command on a terminal of 80 columns and print what it put there.

Usage: terminal.py COMMAND [ARGUMENT]...; exits with the command's status.
"""
import fcntl
import os
import pty
import struct
import sys
import termios

pid, master = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
try:
    while piece := os.read(master, 4096):
        sys.stdout.buffer.write(piece)
except OSError:  # the other side is closed
    pass
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
