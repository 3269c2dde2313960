// What the page shows and what the story leaves out.
import type { App } from "./app";
import { byId, el } from "./dom";
import { bytes, counted, number, span } from "./text";

export function about(app: App): void {
  const { story } = app;
  const size = story.pageblocks * story.pageblock_frames * story.frame_bytes;
  const facts: [string, string][] = [
    ["Recording", story.name],
    ["Kernel", story.kernel],
    ["CPUs", number(story.cpus)],
    [story.trust && story.trust.lost > 0 ? "Events seen" : "Events", number(story.events)],
    ["Length", span(story.duration_ns)],
    ["Memory", `${bytes(size)}, ${counted(story.pageblocks, "pageblock")} of ${number(story.pageblock_frames)} frames`],
    ["Moments", `${number(story.moments)}, one each ${span(story.resolution_ns)}`],
  ];
  const list = el("dl", { class: "facts" });
  for (const [name, value] of facts) list.append(el("dt", { text: name }), el("dd", { text: value }));
  const kept = story.left_out.length > 0 ? story.left_out : ["Nothing is left out beyond what happens between two moments."];
  const made = story.made ? [el("h3", { text: `Made by version ${story.made.version} of` }), el("pre", { text: story.made.command })] : [];
  byId("about").replaceChildren(
    list,
    ...made,
    el("h3", { text: "Words" }),
    el("p", { text: "A pageblock is the size of a huge page. It is lost to huge frames when a frame in it cannot move: compaction cannot make it whole." }),
    el("p", { text: "The first line is the host itself, from the recording. The others replay its requests on an engine: they are predictions." }),
    el("h3", { text: "What is left out" }),
    el("ul", {}, ...kept.map((text) => el("li", { text }))),
  );
}
