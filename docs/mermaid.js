// Draws the Mermaid blocks of a page, as code hosts do. Without a network they stay text.
const blocks = document.querySelectorAll("code.language-mermaid");
if (blocks.length > 0) {
  import("https://cdn.jsdelivr.net/npm/mermaid@11.4.1/dist/mermaid.esm.min.mjs").then(({ default: mermaid }) => {
    for (const block of blocks) {
      const picture = document.createElement("pre");
      picture.className = "mermaid";
      picture.textContent = block.textContent;
      block.parentElement.replaceWith(picture);
    }
    return mermaid.run();
  });
}
