"""Documents cut into sentences, in English and in Chinese; nothing lost, and in time that grows with length alone."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertworks.text.sentences import sentences

# Each: the sentences a person would name. Where white space stood between two, a space leads the second.
ENGLISH = [
    ["The dog sleeps.", " The fox runs."],
    ["Is it late?", " It is!", " Let us go."],
    ["Mr. Brown met Mrs. Green and Dr. White.", " They talked."],
    ["Prof. Ada Stone and Gen. Lee Park disagree."],
    ["J. K. Rowling wrote it.", " J. R. R. Tolkien did not."],
    ["Some animals, e.g. Bears, sleep; others, i.e. Foxes, hunt."],
    ["The U.S. Army came.", " He moved to the U.S.", " They stayed."],
    ["It was Norway vs. Sweden again."],
    ["See Fig. 3 and No. 7 on pp. 12.", " Then go on."],
    ["She said no. 5 was hers."],
    ["She said no.", " Then she left."],
    ["On Jan. 5 it froze.", " On Feb. 7 it thawed."],
    ["We walked down St. James Street."],
    ["Apples, pears, etc. are fruit.", " Nuts, grains, etc.", " Honey too."],
    ["Pi is 3.14 or so.", " Version 2.0.1 is out.", " Get it."],
    ["It costs 3.50.", " That is cheap."],
    ["Open example.com/a.html?b=1 in it.", " Save as notes.txt now."],
    ["Wait... what is it?", " Well...", " Then go."],
    ["Really?!", " Yes!!!", " No..."],
    ["Well... I do not know.", " Fine."],
    ["He left.", ' "Why?" she asked.', " Nobody knew."],
    ['"Stop!" he cried.', ' "Now."', " They stopped."],
    ["“Why?” she asked.", " “Because.”", " He left."],
    ["“Why?” I asked.", " He shrugged."],
    ["(He left.)", " She stayed."],
    ["He left (really!) and came back.", " Good."],
    ["It works (see below).", " Use it."],
    ["1. First of all", "2. Second of all"],
    ["1. Open it.", " 2. Close it."],
    ["(a) The first.", "(b) The second."],
    ["IV. The end of it"],
    ["In 1999.", " The year after."],
    ["He lives at 5 p.m. Street.", " It is 5 p.m. now."],
    ["It closes at 5 p.m.", " The shop opens at 9 a.m. on Monday."],
    ["Acme Inc. Chairman Bob quit.", " He joined Widget Corp.", " The shares fell."],
    ["He holds a Ph.D. in physics."],
    ["Vitamin C.", " The rest."],
    ["This is so.[1]", " That is not.[2][3]", " Done."],
    ["It rose by 5%.", " $6 was paid.", " £7 came back."],
    ["iPhones sell.", " 7 of them today."],
    ["What is it? it is a dog."],
    ["it was good .", " he left .", " so did i ."],
    ["so . . . what now", "nothing ."],
    ["Yahoo! is a company.", " So is Jeopardy! no more."],
    ["Élan is a word.", " Être is another.", " Да.", " Нет."],
    ["One line", "and another", "and a third."],
    ["Tab between.", " Here."],
    ["No end at all"],
    ["Washington, D.C. Mayor Fox spoke."],
    ["Smith et al. Journal of Dogs, vol. 3, no. 4."],
    ["'It is.'", " 'It is not.'"],
    ["He is Sen. Fox (D., Va.) of course."],
    ["Go to Calif. Governor first."],
]
CHINESE = [
    ["今天天气很好。", "我们去公园吧！", "好吗？"],
    ["真的吗？！", "真的！！！", "太好了。。。", "走吧"],
    ["我……", "我不知道。"],
    ["他来了；她走了；大家都散了。"],
    ["他说：“我走了。”", "然后关上门。"],
    ["“为什么？”", "没有人知道。"],
    ["「好！」", "「不好！」", "『再见。』"],
    ["他喊出“加油！”的口号。", "大家都笑了。"],
    ["“好！”，他说。", "“走吧。”", "她笑了。"],
    ["我（真的！）很高兴。", "你呢？"],
    ["他走了。", "（我也走了。）", "天黑了。"],
    ["《你好吗？》是一本书。", "我读过。"],
    ['他说:"我走了。"', "然后走了。"],
    ["我走了。", '"你好。"', "他笑了。"],
    ["圆周率是3.14。", "版本是2.0.1。"],
    ["第一行", "第二行。", "第三行"],
    ["好难!", "金秋十月到了.也没有收获."],
    ["是吗?", "我不信!", "“真的。”"],
    ["不错......", "就是贵"],
    ["1. 打开文件。", "2. 关闭文件。"],
    ["打开 www.example.com/?q=中文 看看。", "好。"],
    ["今年GDP增长5.2%。", "明年呢？"],
    ["你好。", " 再见。"],
    ["完了｡", "半角的句号"],
    ["约翰.史密斯来了。", "他很高。"],
    ["我爱你！", "❤"],
]
MIXED = [
    ["我用PyTorch训练BERT模型。", "It works well.", " 效果很好！", "Really?", " 真的。"],
    ["Dr. 王来了。", "Mr. 李没来。"],
    ["我用 PyTorch.", " 它很快。"],
    ["见 Fig. 3。", "然后看 Table 4。"],
    ["他说 OK!", "走吧"],
    ["The word 好 means good.", " 好。"],
    ["“Hello!”", " 他说。", "Then he left."],
    ["BERT 是什么？", " It is a model.", " 对。"],
]


@pytest.mark.parametrize("wanted", [*ENGLISH, *CHINESE, *MIXED], ids=lambda one: one[0][:20])
def test_by_hand(wanted: list[str]) -> None:
    lines = {"1. First of all", "(a) The first.", "One line", "and another", "第一行", "so . . . what now", "第二行。"}
    text = "".join(one + "\n" * (one in lines) for one in wanted)
    assert sentences(text, led=True) == wanted
    assert sentences(text) == [one.strip() for one in wanted]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n \n", "\u2028", "\x0b", "\x85"])
def test_a_line_end_is_an_end_and_nothing_leads_the_next_line(end: str) -> None:
    assert sentences(f"  one{end}\ttwo  {end}", led=True) == ["one", "two"]


def test_white_space_alone_is_no_sentence() -> None:
    assert sentences("") == sentences(" \n\t\u3000 \r\n") == []
    assert sentences("\u3000\u3000你好。\u3000\u3000再见。", led=True) == ["你好。", " 再见。"]


# -- what holds for any text -----------------------------------------------------------------------------

ANY = st.one_of(
    st.text(max_size=60),
    st.text(alphabet=".!?…。！？｡．\"'“”()（）「」[]1aAI 王，的;\n\t", max_size=60),
    st.lists(
        st.sampled_from([". ", "? ", "。", "……", '"', "”", "Mr", "U.S", "No", "I", "The", "go", "王", "5", "(", ")"]),
        max_size=25,
    ).map("".join),
)


@settings(max_examples=1500, deadline=None, database=None)
@given(ANY)
def test_nothing_is_lost_and_once_is_enough(text: str) -> None:
    found, led = sentences(text), sentences(text, led=True)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(one and one == one.strip() for one in found)
    assert [one.removeprefix(" ") for one in led] == found
    for one in found:
        assert sentences(one) == [one]


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        ".",
        '"',
        "A. ",
        "。",
        '。"',
        '。"，',
        "?) ",
        "…",
        ". . ",
        "![1",
        "”。",
        " ",
        "\u3000",
        "a.",
        "……”的",
        '."',
        "(! ",
    ],
)
def test_time_grows_with_length_alone(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        best = 9.0
        for _ in range(3):
            start = time.perf_counter()
            sentences(text)
            best = min(best, time.perf_counter() - start)
        return best

    small, large = seconds(100_000), seconds(400_000)
    assert large < 0.02 or large < 10 * small, (small, large)


def test_a_megabyte_takes_about_a_second_at_most() -> None:
    for unit in ("x", ".", '"', "A. "):
        start = time.perf_counter()
        sentences(unit * (1_000_000 // len(unit)))
        assert time.perf_counter() - start < 5
