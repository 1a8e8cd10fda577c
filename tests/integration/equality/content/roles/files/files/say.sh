#!/bin/sh
echo "$#: $1, $2"; echo "on stderr" >&2; pwd | tail -c 5
