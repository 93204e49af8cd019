#!/bin/sh
# Keeps one fact. Usage: memory-write.sh SENTENCE
set -eu

if [ "$#" -eq 0 ] || [ -z "$*" ]; then
    echo "usage: memory-write.sh SENTENCE" >&2
    exit 2
fi
exec nexus memory add "$*"
