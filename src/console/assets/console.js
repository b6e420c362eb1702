// Everything works without this file. With it: `/` goes to the search, buttons copy, parts marked with
// `data-refresh="SECONDS"` are drawn again while somebody looks at them, times tell the local time, and `[data-tail]` follows what comes in.
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

// The page as it is now, of which one part is taken, unless somebody is busy there by then. Answers whether that part is to
// be drawn again.
async function draw(part, isBusy) {
    try {
        const answer = await fetch(location.href, { headers: { accept: "text/html" } });
        if (!answer.ok || answer.redirected) return true;
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (isBusy()) return true;
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
    } catch {
        return true; // The next time.
    }
}

const isSelecting = (part) => !getSelection().isCollapsed && part.contains(getSelection().anchorNode);

// Unless somebody looks elsewhere, or is in the middle of it.
for (const part of document.querySelectorAll("[data-refresh]")) {
    const isBusy = () => document.hidden || part.contains(document.activeElement) || isSelecting(part)
        || part.querySelector("details[open]");
    const again = async () => {
        if (isBusy() || await draw(part, isBusy)) setTimeout(again, Number(part.dataset.refresh) * 1000);
    };
    setTimeout(again, Number(part.dataset.refresh) * 1000);
}

// What comes in, on top of the list. It waits while somebody is at the list, and is not asked for while nobody looks.
function follow(bar) {
    const [rowsMax, againMs] = [200, 10000];
    const list = document.getElementById("rows");
    const [state, button] = [bar.querySelector("[role=status]"), bar.querySelector("button")];
    const body = () => list.querySelector("tbody");
    let [source, after, waiting, skippedN] = [null, "", [], 0];
    let [isPaused, isToDraw, isDrawing, wasOpen] = [false, false, false, false];

    const why = () => {
        if (isPaused) return "Paused.";
        if (document.hidden) return "Paused while this tab is hidden.";
        if (isSelecting(list)) return "Paused while text is selected.";
        return body()?.contains(document.activeElement) ? "Paused while a row is selected." : "";
    };
    const parsed = (text) =>
        new DOMParser().parseFromString(`<table><tbody>${text}</tbody></table>`, "text/html").querySelector("tr");
    const isThere = (row) => [...body()?.rows ?? []].some((old) => old.dataset.row === row.dataset.row);
    const put = (row) => {
        if (isThere(row)) return;
        row.classList.add("fresh");
        body().prepend(row);
        while (body().rows.length > rowsMax) body().lastElementChild.remove();
    };
    const show = async () => {
        if (isDrawing) return; // Who draws shows what has come meanwhile.
        if (!why()) {
            if (isToDraw || (waiting.length && !body())) {
                [isToDraw, isDrawing] = [false, true];
                const isLeft = await draw(list, why);
                [isToDraw, isDrawing] = [isToDraw || isLeft, false];
            }
            if (!why() && body()) waiting.splice(0).forEach(put);
            label(list);
        }
        const connected = source?.readyState === EventSource.OPEN ? "Live."
            : wasOpen ? "Not connected; trying again." : "Connecting.";
        const parts = [why() || connected];
        if (waiting.length) parts.push(`${waiting.length} waiting.`);
        if (skippedN) parts.push(`${skippedN} skipped.`);
        if (state.textContent !== parts.join(" ")) state.textContent = parts.join(" ");
        bar.dataset.is = why() ? "paused" : connected === "Live." ? "live" : "away";
        [button.hidden, button.textContent] = [false, isPaused ? "Go on" : "Pause"];
    };
    const open = () => {
        if (document.hidden || source) return;
        const at = new URL(bar.dataset.tail, location.href);
        if (after) at.searchParams.set("after", after);
        source = new EventSource(at);
        source.onopen = () => {
            wasOpen = true;
            isToDraw ||= !after; // What came between the page and its stream.
            show();
        };
        source.onerror = () => {
            wasOpen = true; // Known not to be connected.
            if (source?.readyState === EventSource.CLOSED) {
                close();
                setTimeout(open, againMs);
            }
            show();
        };
        source.addEventListener("row", (event) => {
            after = event.lastEventId;
            // The stream begins a little before the page was made: what is there already is not waited for.
            const row = parsed(event.data);
            if (!isThere(row) && waiting.push(row) > rowsMax) {
                waiting.shift();
                skippedN += 1;
            }
            show();
        });
        source.addEventListener("skipped", (event) => {
            after = event.lastEventId;
            skippedN += Number(event.data);
            show();
        });
    };
    const close = () => {
        source?.close();
        source = null;
    };

    // A row that is clicked is selected: it can be read, and copied from, while others come in.
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
        show();
    });
    document.addEventListener("visibilitychange", () => {
        if (document.hidden) close();
        else open();
        show();
    });
    document.addEventListener("selectionchange", show);
    list.addEventListener("focusin", show);
    list.addEventListener("focusout", () => setTimeout(show));
    open();
    show();
}
document.querySelectorAll("[data-tail]").forEach(follow);
