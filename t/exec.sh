#!/bin/sh
# For prove: a shell test goes to sh, a program runs as it is.
case $1 in
t/*) exec sh "$@" ;;
/*) exec "$@" ;;
*) exec "./${1#./}" ;;
esac
