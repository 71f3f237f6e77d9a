"""at_terminal.py COMMAND...: runs a command whose standard input is a terminal, where what comes on standard input is typed."""

import os
import pty
import subprocess
import sys

typist, terminal = pty.openpty()
command = subprocess.Popen(sys.argv[1:], stdin=terminal)
# The terminal keeps it until the command reads a line.
os.write(typist, sys.stdin.buffer.read())
sys.exit(command.wait())
