#!/usr/bin/env bash
# Checks the pages with textlint, which it installs below target (words.yml has terms with one spelling), and counts expressions
# that are hard to read in pages and comments (words.py).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python3 docs/prose/words.py

tools=$PWD/target/prose
if ! cmp --silent docs/prose/package.json "$tools/installed"; then
  command -v npm >/dev/null || { echo 'npm is missing: it installs textlint' >&2; exit 69; }
  rm -rf "$tools"
  mkdir -p "$tools"
  cp docs/prose/package.json "$tools/"
  npm install --silent --no-audit --no-fund --no-package-lock --prefix "$tools"
  # Copied last: one that was interrupted is made again.
  cp docs/prose/package.json "$tools/installed"
fi
git ls-files -z --cached --others --exclude-standard -- '*.md' ':!*zh-CN*' ':!.github' |
  xargs -0 "$tools/node_modules/.bin/textlint" --config docs/prose/textlint.json --rules-base-directory "$tools/node_modules"
