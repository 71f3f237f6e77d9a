// Everything works without this file; with it pages are live.
"use strict";
(() => {
  const live = document.querySelector("[data-live]");
  if (!live || !window.EventSource) return;
  // The server sends every 2 s.
  const STALE_MS = 8000, RETRY_MS = 3000;
  let source = null, last = Date.now(), retry = 0;

  const badge = document.getElementById("badge");
  badge.hidden = false;

  function show() {
    const age = Date.now() - last, stale = age > STALE_MS;
    const text = stale ? "stale: the last reading is " + Math.round(age / 1000) + " s old" : "live";
    if (badge.textContent !== text) badge.textContent = text;
    badge.classList.toggle("bad", stale);
    live.classList.toggle("stale", stale);
  }

  // Replace only changed parts, so that a selection, the focus and a screen reader keep their position.
  function update(html) {
    const fresh = new DOMParser().parseFromString(html, "text/html");
    const old = [...live.querySelectorAll("[data-part]")], parts = [...fresh.querySelectorAll("[data-part]")];
    if (old.map(p => p.id).join() !== parts.map(p => p.id).join()) {
      live.replaceChildren(...fresh.body.childNodes);
      return;
    }
    old.forEach((part, at) => {
      if (part.className !== parts[at].className) part.className = parts[at].className;
      if (part.innerHTML === parts[at].innerHTML) return;
      const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      part.replaceChildren(...parts[at].childNodes);
      if (focused) part.querySelector('[href="' + CSS.escape(focused) + '"]')?.focus();
    });
  }

  function close() {
    clearTimeout(retry);
    if (source) source.close();
    source = null;
  }

  function open() {
    close();
    source = new EventSource(live.dataset.live);
    source.onmessage = event => { last = Date.now(); update(event.data); show(); };
    // Retry after any error; after the end of the session the badge becomes stale.
    source.onerror = () => { close(); retry = setTimeout(open, RETRY_MS); };
  }

  document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", event => { if (event.persisted) location.reload(); });
  setInterval(show, 1000);
  if (!document.hidden) open();
})();
