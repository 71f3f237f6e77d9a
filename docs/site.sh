#!/usr/bin/env bash
# The site from the pages, in target/book; fails if a link within it leads nowhere. Takes the mdBook and lychee that are installed, or
# installs those of docs/requirements.txt below target.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v mdbook >/dev/null || ! command -v lychee >/dev/null; then
  tools=$PWD/target/mdbook
  if ! cmp --silent docs/requirements.txt "$tools/installed"; then
    python3 -m venv --clear "$tools"
    "$tools/bin/pip" install --quiet --require-hashes -r docs/requirements.txt
    cp docs/requirements.txt "$tools/installed"
  fi
  PATH=$tools/bin:$PATH
fi

# mdBook reads one folder; the pages link to files of the whole repository.
site=target/site
rm -rf "$site"
mkdir -p "$site/src"
git ls-files -z --cached --others --exclude-standard -- '*.md' docs examples deploy rabbitmq-plugins sql topology.toml docker-compose.yml \
  docker/Dockerfile src/effect/reference.toml tests/python tests/it/shutdown.rs |
  grep -zv '^docs/SUMMARY.md$' | xargs -0 cp --parents -t "$site/src"
cp docs/book.toml docs/site.css docs/mermaid.js "$site"
# What is README.md in the repository is the index of its folder here.
find "$site/src" -name '*.md' -exec sed -i -E 's#README\.md([)\#])#index.md\1#g' {} +
# The contents name pages as seen from docs; the book begins above it.
sed -E 's#\]\(\.\./#](TOP/#; t; s#\]\(#](docs/#' docs/SUMMARY.md | sed 's#(TOP/#(#' >"$site/src/SUMMARY.md"
mdbook build "$site"
# 404.html is served below any path.
lychee --offline --include-fragments --no-progress --root-dir target/book --exclude-path target/book/404.html target/book
echo "the site is in target/book: open target/book/index.html"
