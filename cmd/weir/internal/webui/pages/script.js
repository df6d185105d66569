// What makes the page lively. Without it everything works, a request later.
"use strict";
(() => {
  const beat = 5000;

  // Counts of the page follow those of the daemon while somebody looks.
  const live = () => document.querySelectorAll("[data-live]");
  const refresh = async () => {
    if (document.hidden) return;
    const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error", headers: { "Weir-Refresh": "1" } });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = new Map([...page.querySelectorAll("[data-live]")].map((e) => [e.dataset.live, e]));
    for (const e of live()) {
      const next = now.get(e.dataset.live);
      if (next && !next.isEqualNode(e)) e.replaceWith(next);
    }
  };
  if (live().length > 0) setInterval(() => refresh().catch(() => {}), beat);

  // The editor says what a limit means while it is written.
  for (const form of document.querySelectorAll("[data-editor]")) {
    const preview = form.querySelector("#preview");
    let wait = 0, last = 0;
    const look = async () => {
      const turn = ++last;
      const answer = await fetch("/ui/look", { method: "POST", body: new URLSearchParams(new FormData(form)), credentials: "same-origin", redirect: "error" });
      if (answer.ok && turn === last) preview.innerHTML = await answer.text(); // escaped where it was made
      preview.setAttribute("aria-busy", "false");
    };
    form.querySelector("textarea").addEventListener("input", () => {
      clearTimeout(wait);
      preview.setAttribute("aria-busy", "true");
      wait = setTimeout(() => look().catch(() => preview.setAttribute("aria-busy", "false")), 300);
    });
  }
})();
