// Everything works without this file. With it: `/` goes to the search, buttons copy, parts marked with
// `data-refresh="SECONDS"` are drawn again while the page is visible, times show the local time, and `[data-follow]`
// follows a list.
"use strict";

document.addEventListener("keydown", (event) => {
    const isWriting = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    const search = document.getElementById("search");
    if (event.key === "/" && search && !isWriting && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        search.focus();
    }
});

// `data-text` is what a button copies, or `data-copy` the id of what shows it; a table is copied line by line.
function wanted(button) {
    const source = document.getElementById(button.dataset.copy);
    const row = (one) => [...one.cells].map((cell) => cell.textContent).join(": ");
    const rows = source?.querySelector("tbody")?.rows;
    return button.dataset.text ?? (rows ? [...rows].map(row).join("\n") : source.textContent);
}

// `navigator.clipboard` is missing on plain http, where the operator listener often is: then a field that is selected does it.
document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-text]");
    if (!button) return;
    const field = Object.assign(document.createElement("textarea"), { value: wanted(button), className: "unseen" });
    const isCopied = await navigator.clipboard?.writeText(field.value).then(() => true, () => false);
    if (!isCopied) {
        button.after(field);
        field.select();
    }
    button.removeAttribute("aria-label");
    button.textContent = isCopied || document.execCommand("copy") ? "Copied" : "Not copied";
    field.remove();
});

// Times are in UTC; pointed at, one says what it is where one sits.
document.addEventListener("pointerover", (event) => {
    const time = event.target.closest?.("time[datetime]");
    if (!time || time.dataset.local) return;
    const local = new Date(time.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
    time.dataset.local = local;
    time.title = `${time.dateTime} (${local} where you are)`;
});

// On a narrow window a row is a card, and each of its cells says which it is.
function label(root) {
    for (const table of root.querySelectorAll("table.cards, table.lines")) {
        const names = [...table.querySelectorAll("thead th")].map((heading) => heading.textContent);
        for (const row of table.querySelectorAll("tbody tr")) {
            [...row.cells].forEach((cell, n) => { cell.dataset.label = names[n] ?? ""; });
        }
        if (names.length) table.classList.add("labelled");
    }
}
label(document);

// The page as it is now; null when it cannot be had.
async function fetched() {
    try {
        const answer = await fetch(location.href, { headers: { accept: "text/html" } });
        if (!answer.ok || answer.redirected) return null;
        return new DOMParser().parseFromString(await answer.text(), "text/html");
    } catch {
        return null;
    }
}

// Fetches the page again and replaces one part of it, unless the user is busy there by then. Returns true when that
// part is to be drawn again.
async function draw(part, isBusy) {
    const page = await fetched();
    if (!page || isBusy()) return true; // The next time.
    const fresh = page.getElementById(part.id);
    const isToGoOn = fresh?.dataset.refresh !== undefined;
    if (fresh) {
        part.replaceChildren(...fresh.childNodes);
        label(part);
    }
    // What can be decided is another thing once it is over.
    for (const other of isToGoOn ? [] : document.querySelectorAll(`[data-ends-with="${part.id}"]`)) {
        other.replaceChildren(...page.getElementById(other.id)?.childNodes ?? []);
    }
    return isToGoOn;
}

const isSelecting = (part) => !getSelection().isCollapsed && part.contains(getSelection().anchorNode);

// Unless the page is hidden, or the user is working in the part.
for (const part of document.querySelectorAll("[data-refresh]")) {
    const isBusy = () => document.hidden || part.contains(document.activeElement) || isSelecting(part)
        || part.querySelector("details[open]");
    const again = async () => {
        if (isBusy() || await draw(part, isBusy)) setTimeout(again, Number(part.dataset.refresh) * 1000);
    };
    setTimeout(again, Number(part.dataset.refresh) * 1000);
}

// A list that is drawn again every two seconds. It stands still while the user works in it, and is not fetched for a
// hidden tab.
function follow(bar) {
    const everyMs = 2000;
    const list = document.getElementById("rows");
    const [state, button] = [bar.querySelector("[role=status]"), bar.querySelector("button")];
    const body = () => list.querySelector("tbody");
    const ids = () => new Set([...body()?.rows ?? []].map((row) => row.dataset.row));
    let [isPaused, isAway, isFetching] = [false, false, false];

    const why = () => {
        if (isPaused) return "Paused.";
        if (document.hidden) return "Paused while this tab is hidden.";
        if (isSelecting(list)) return "Paused while text is selected.";
        return body()?.contains(document.activeElement) ? "Paused while a row is selected." : "";
    };
    const show = () => {
        const text = why() || (isAway ? "Not connected; trying again." : "Live.");
        if (state.textContent !== text) state.textContent = text;
        bar.dataset.is = why() ? "paused" : isAway ? "away" : "live";
        [button.hidden, button.textContent] = [false, isPaused ? "Go on" : "Pause"];
    };
    const look = async () => {
        if (why() || isFetching) return;
        isFetching = true;
        const before = ids();
        const page = await fetched();
        isFetching = false;
        isAway = !page;
        const fresh = page?.getElementById(list.id);
        if (fresh && !why()) {
            list.replaceChildren(...fresh.childNodes);
            label(list);
            for (const row of body()?.rows ?? []) row.classList.toggle("fresh", !before.has(row.dataset.row));
        }
        show();
    };
    const again = () => {
        show();
        look();
    };

    // A row that is clicked is selected: it can be read, and copied from, while others arrive.
    list.addEventListener("click", (event) => {
        const row = event.target.closest("tbody tr");
        if (!row || event.target.closest("a, button, input, label") || isSelecting(list)) return;
        row.tabIndex = -1;
        row.focus();
    });
    list.addEventListener("keydown", (event) => {
        if (event.key === "Escape") document.activeElement.blur();
    });
    button.addEventListener("click", () => {
        isPaused = !isPaused;
        again();
    });
    document.addEventListener("visibilitychange", again);
    document.addEventListener("selectionchange", show);
    list.addEventListener("focusin", show);
    list.addEventListener("focusout", () => setTimeout(again));
    setInterval(look, everyMs);
    show();
}
document.querySelectorAll("[data-follow]").forEach(follow);
