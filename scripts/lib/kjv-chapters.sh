#!/usr/bin/env bash
# Writes the King James text of Debian's bible-kjv as one file a chapter: heading, blank line, a numbered verse a line.
#   kjv-chapters.sh FOLDER
set -euo pipefail
folder=$1
mkdir -p "$folder"
# The program wraps by words and prints a heading before each chapter; so wide a line holds any verse.
bible -l100000 gen1:1-rev22:21 | awk -v folder="$folder" '
  function flush_chapter() {
    if (path == "") return
    printf "%s", text > path
    close(path)
  }
  /^[^ ].* [0-9]+$/ {  # "Song of Solomon 3"
    flush_chapter()
    book = $0
    sub(/ [0-9]+$/, "", book)
    if (book != last_book) { ++books; last_book = book }
    name = tolower(book)
    gsub(/ /, "-", name)
    path = sprintf("%s/%02d-%s-%03d.txt", folder, books, name, $NF)
    text = $0 "\n\n"
    ++chapters
    next
  }
  /^  [0-9]+ / { text = text substr($0, 3) "\n"; ++verses; next }
  NF { print "unexpected line from bible: " $0 > "/dev/stderr"; failed = 1; exit 1 }
  END {
    if (failed) exit 1
    flush_chapter()
    if (books != 66 || chapters != 1189 || verses != 31102) {
      printf "bible printed %d books, %d chapters, %d verses; 66, 1189 and 31102 were expected\n", \
        books, chapters, verses > "/dev/stderr"
      exit 1
    }
  }'
