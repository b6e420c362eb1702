// Everything works without this file. With it: `/` goes to the search, `[data-copy]` copies, and parts marked with
// `data-refresh="SECONDS"` are drawn again while somebody looks at them.
"use strict";

document.addEventListener("keydown", (event) => {
    const isWriting = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "/" && !isWriting && !event.ctrlKey && !event.metaKey && !event.altKey) {
        const search = document.getElementById("search");
        if (search) {
            event.preventDefault();
            search.focus();
        }
    }
});

// `navigator.clipboard` is missing on plain http, where the operator listener often is: then the text is selected.
document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = document.getElementById(button.dataset.copy);
    const text = source.value ?? source.textContent;
    try {
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
    } catch {
        const range = document.createRange();
        range.selectNodeContents(source);
        const selection = getSelection();
        selection.removeAllRanges();
        selection.addRange(range);
        button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
    }
});

// A part is fetched with its page and put in its place, unless somebody looks elsewhere or is in the middle of it.
for (const part of document.querySelectorAll("[data-refresh]")) {
    const again = async () => {
        const isBusy = document.hidden || part.contains(document.activeElement) || !getSelection().isCollapsed;
        if (!isBusy) {
            try {
                const answer = await fetch(location.href, { headers: { accept: "text/html" } });
                if (answer.ok) {
                    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
                    const fresh = page.getElementById(part.id);
                    if (fresh) part.replaceChildren(...fresh.childNodes);
                    if (!fresh || fresh.dataset.refresh === undefined) return;
                }
            } catch {
                // The next time.
            }
        }
        setTimeout(again, Number(part.dataset.refresh) * 1000);
    };
    setTimeout(again, Number(part.dataset.refresh) * 1000);
}
