"""Mathematical answers: equal things pass however they are written, unequal things never do."""

import pytest

from dartes.tasks.base import TaskSettings
from dartes.tasks.math import MathTask
from dartes.tasks.math_equality import key

TASK = MathTask.from_spec(TaskSettings("math"))


def _pairs(table: str) -> list[tuple[str, str]]:
    """Reference and answer on each line of a table, which a tilde divides."""
    lines = [line.split("~") for line in table.splitlines() if line.strip()]
    return [(reference.strip(), answer.strip()) for reference, answer in lines]


EQUAL = _pairs(
    r"""
    5  ~  5
    5  ~  5.
    5  ~  $5$
    5  ~  +5
    27  ~  27.0
    1000  ~  1,000
    1000  ~  1{,}000
    1000  ~  1\,000
    11111  ~  11,\! 111
    1000  ~  1 000
    0.4  ~  .4
    0.5  ~  \frac12
    \frac{1}{2}  ~  \dfrac 1 2
    -\frac{2}{3}  ~  \frac{-2}{3}
    7/2  ~  3\frac{1}{2}
    7/2  ~  3 1/2
    1500  ~  1.5 \times 10^3
    10^{-7}  ~  1e-7
    1/3  ~  0.333333
    2/3  ~  0.666667
    50\%  ~  50
    50  ~  50\%
    50\%  ~  0.5
    50\%  ~  50 percent
    28\%  ~  28 \text{pct}
    5\text{ cm}  ~  5
    5  ~  5 \mathrm{cm}^2
    12  ~  12 square units
    \$5.00  ~  5
    90^\circ  ~  90
    90  ~  90^{\circ}
    \text{Evelyn}  ~  Evelyn
    \text{east}  ~  \textbf{ East }
    \text{(C)}  ~  C
    E  ~  \text{(E)}
    5  ~  x = 5
    x=5  ~  5
    y=2x+3  ~  2x+3
    [-2,7]  ~  x \in [-2,7]
    (1,2)  ~  (x,y) = (1,2)
    (1,2)  ~  \left( 1, 2 \right)
    (3,\frac{\pi}{2})  ~  \left(3,\pi/2\right)
    1,2,3  ~  3, 1, 2
    \{1,2\}  ~  2,1
    5  ~  \{5\}
    1,-2  ~  -2 \text{ and } 1
    1,2  ~  1 or 2
    12,13  ~  12, and 13
    [0,\infty)  ~  [ 0 , \infty )
    (-\infty,1)\cup(2,\infty)  ~  (2,\infty) \cup (-\infty,1)
    \{1,3\} \cup \{2,4\}  ~  \{1,2,3,4\}
    (1,2)  ~  1 < x < 2
    [3,\infty)  ~  x \ge 3
    1\pm\sqrt2  ~  1+\sqrt{2}, 1-\sqrt{2}
    \pm 3  ~  3,-3
    \begin{pmatrix}1\\2\end{pmatrix}  ~  \begin{bmatrix} 1 \\ 4/2 \end{bmatrix}
    \begin{pmatrix} 0 & 3 \\ 0 & -1 \end{pmatrix}  ~  \begin{pmatrix}0&3\\0&-1\end{pmatrix}
    1112_3  ~  1112_{3}
    1112_3  ~  1112
    \frac{\sqrt{2}}{2}  ~  \frac{1}{\sqrt2}
    x^2+2x+1  ~  (x+1)^2
    2-2p  ~  -2p+2
    \pi r^2  ~  r^2\pi
    2\sqrt3  ~  \sqrt{12}
    \sqrt{2}  ~  1.41421356
    \frac{3}{2}\pi  ~  1.5\pi
    3+4i  ~  4i+3
    2x+y=3  ~  y=3-2x
    x-2y+z-1=0  ~  x+z=1+2y
    x<3  ~  3>x
    6!  ~  720
    2^{10}  ~  1024
    \binom{5}{2}  ~  10
    \log_2 8  ~  3
    \sin^2 x+\cos^2 x  ~  1
    e^2  ~  \mathrm{e}^{2}
    \frac{14}{3}  ~  \frac{14}{3}
    10  ~  (9+1)
    (-\infty,\infty)  ~  \mathbb{R}
    \mathbb{R}  ~  (-\infty, +\infty)
    \mathbb R  ~  x \in (-\infty,\infty)
    \frac16  ~  \frac16 \approx 0.167
    \frac16  ~  \frac{1}{6} \approx 0.1667
    \sqrt2  ~  \sqrt{2} \approx 1.414
    4\pi  ~  4\pi≈12.57
    4  ~  \text{Area} = 4
    4  ~  \angle ABC = 4
    4  ~  m\angle B = 4^\circ
    4  ~  AB = 4
    4  ~  \overline{AB} = 4
    \text{Area} = 4  ~  4
    (1,2,3)  ~  x=1,y=2,z=3
    (1,2)  ~  x=1 \text{ and } y=2
    (x,y)=(1,2)  ~  x=1,y=2
    (n,m)=(1,2)  ~  n=1,m=2
    (x,y)=(1,2)  ~  (1,2)
    132  ~  132^\circ\text{C}
    80  ~  80^\circ\mathrm{F}
    80^\circ\text{F}  ~  80
    80^\circ\text{F}  ~  80^{\circ}\mathrm{F}
    80  ~  80°F
    (x+1)^{15}  ~  (1+x)^{15}
    2(x+y)^{20}  ~  (y+x)^{20} \cdot 2
    2^{2005}-1  ~  -1+2^{2005}
    2^{1005}  ~  2\cdot2^{1004}
    2^{1005}  ~  4^{502} \cdot 2
    \frac{3^{2000}-1}{2}  ~  (3^{2000}-1)/2
    \frac13  ~  0.\overline{3}
    0.1\overline{6}  ~  1/6
    0.\overline{12}  ~  \frac{4}{33}
    12  ~  \textbf{(B)}\ 12
    B  ~  \textbf{(B)}\ 12
    \text{(B)}  ~  \textbf{(B)}\ 12
    \textbf{(B)}\ 12  ~  12
    \textbf{(B)}\ 12  ~  (B)
    \textbf{(B)}\ 12  ~  \text{(B) } 12
    18  ~  \text{18 inches}
    18  ~  \text{18 square feet}
    12  ~  **12**
    5  ~  5\text{ buckets}
    1/3  ~  \left(\frac{1}{3}\right)
    """
)

UNEQUAL = _pairs(
    r"""
    5  ~  6
    5  ~  -5
    5  ~  5,6
    5  ~  5 or 6
    5  ~  \text{5 or 6}
    5  ~  6=5=7
    0.3  ~  0.33
    1/3  ~  0.33
    1/3  ~  0.333334
    0.28  ~  28
    28/100  ~  28
    31/2  ~  3 1/2
    32349  ~  32, 349
    1000000  ~  1000000.1
    3.14159  ~  22/7
    10^{-7}  ~  0
    0  ~  10^{-7}
    1/3000000  ~  0.000000
    \sqrt{2}\cdot 10^{-20}  ~  \sqrt{3}\cdot 10^{-20}
    \sqrt{2}  ~  1.41
    5  ~  5 million
    5  ~  5\text{ dozen}
    5  ~  5 plus 6
    5\%  ~  5.1
    5\%  ~  500
    (1,2)  ~  (2,1)
    [1,2]  ~  (1,2)
    [0,1)  ~  [0,9)
    1  ~  -[0,1)
    1,2  ~  1,2,2
    1,2,3  ~  1,2
    (1,2)  ~  1 \le x < 2
    x=5  ~  y=5
    x  ~  y
    A  ~  B
    \text{Evelyn}  ~  Eve
    x^2+1  ~  x^2-1
    \infty  ~  -\infty
    1  ~  1/0
    1  ~  0/0
    0  ~  1/\infty \text{ or } 5
    5  ~  )5(
    y=2x+3  ~  y=2x-3
    x<3  ~  x>3
    x\le 3  ~  x<3
    1112_3  ~  1112_5
    12  ~  12_3
    3+4i  ~  3-4i
    \begin{pmatrix}1\\2\end{pmatrix}  ~  \begin{pmatrix}2\\1\end{pmatrix}
    9  ~  9^{9^{9}}
    \begin{pmatrix}1\\2\end{pmatrix}  ~  \begin{pmatrix}1&2\end{pmatrix}
    \sin x  ~  \cos x
    5  ~  5\text{ or maybe 6}
    5  ~  5\text{ not}
    5  ~  5\text{ 6}
    5  ~  5 \text{ or anything}
    5  ~  5 \text{ or else}
    5  ~  5 \text{ is wrong}
    5  ~  5\text{ and more}
    [0,\infty)  ~  \mathbb{R}
    \mathbb{Z}  ~  \mathbb{R}
    \mathbb{R}  ~  (-\infty,0)
    \frac16  ~  \frac16 \approx 0.25
    5  ~  5 \approx 6
    \frac16  ~  0.167
    \frac16  ~  \frac17 \approx 0.167
    \sqrt2  ~  \sqrt{2} \approx 1.5
    0.25  ~  \frac16 \approx 0.25
    5  ~  5 \approx 5 \approx 6
    4  ~  \text{Area} = 5
    4  ~  \text{not} = 4
    4  ~  \text{Area} = 5 = 4
    \text{Area} = 4  ~  \text{Perimeter} = 4
    AB = 4  ~  BC = 4
    4  ~  2+2=5
    (1,2)  ~  x=2,y=1
    (1,2)  ~  y=1,x=2
    (1,2)  ~  x=1,x=2
    (1,2)  ~  x=1,2
    (1,2)  ~  x=1,y=2,z=3
    (0,1)  ~  x=1,y=0
    80^\circ\text{F}  ~  80^\circ\text{C}
    80°F  ~  80^\circ\mathrm{C}
    132  ~  131^\circ\text{C}
    (x+1)^{15}  ~  (x-1)^{15}
    (x+1)^{15}  ~  (x+1)^{16}
    (x+1)^{15}  ~  x^{15}+1
    2^{2005}-1  ~  2^{2005}+1
    2^{1005}  ~  2^{1004}
    2^{1005}  ~  2\cdot2^{1005}
    2^{127}-1  ~  0
    0  ~  2^{2005}-2^{2004}
    \frac13  ~  0.\overline{4}
    \frac13  ~  0.3
    0.\overline{3}  ~  0.33
    12  ~  \textbf{(B)}\ 13
    B  ~  \textbf{(C)}\ 12
    B  ~  \textbf{(B)} or \textbf{(C)}
    B  ~  \textbf{(B)}\ 12 or C
    B  ~  \textbf{(B)}\ 12 \textbf{(C)}\ 13
    B  ~  \textbf{(B)} C
    B  ~  \textbf{(B)} is not 12
    (n,m)=(1,2)  ~  m=1,n=2
    (x,y)=(1,2)  ~  y=1,x=2
    (x,y)=(1,2)  ~  (a,b)=(1,2)
    (x,y)=(1,2)  ~  x=(1,2)
    (x,y)=(1,2)  ~  x+y=3
    (x,y)=(1,2)  ~  x=2,y=1
    \textbf{(B)}\ 12  ~  \textbf{(C)}\ 12
    \textbf{(B)}\ 12  ~  \textbf{(B)}\ 13
    \textbf{(B)}\ 12  ~  C
    18  ~  \text{18 or 19 inches}
    18  ~  \text{18 million}
    318  ~  3\text{18 inches}
    8  ~  2**3**
    12  ~  **1**2
    Evelyn  ~  nylevE
    """
)


def passes(reference: str, answer: str) -> bool:
    row = {"problem": "?", "answer": reference}
    TASK.check_row(row)
    return TASK.grade(row, f"So it is \\boxed{{{answer}}}.").passed


@pytest.mark.parametrize(("reference", "answer"), EQUAL)
def test_equal_answers_pass(reference: str, answer: str) -> None:
    assert passes(reference, answer)


@pytest.mark.parametrize(("reference", "answer"), UNEQUAL)
def test_unequal_answers_fail(reference: str, answer: str) -> None:
    assert not passes(reference, answer)


def test_every_reference_is_its_own_answer() -> None:
    for reference, answer in EQUAL:
        assert passes(reference, reference)
        assert key(reference) == key(reference)
        assert passes(answer, answer)


@pytest.mark.parametrize(
    ("completion", "passed", "reason"),
    [
        ("\\boxed{1} no, \\boxed{\\frac{1}{2}}", True, ""),
        ("\\boxed{\\frac{1}{2}} no, \\boxed{1}", False, "another answer"),
        ("\\boxed{\\frac{1}{2}} \\boxed{", False, "no answer in a box"),
        ("the answer is 1/2", False, "no answer in a box"),
        ("\\boxed{ }", False, "no answer in a box"),
        ("", False, "no answer in a box"),
        ("\\boxed {1/2}", True, ""),
        ("\\boxed{1} \\boxed {1/2}", True, ""),
        ("\\boxed{1/2} \\boxed {1}", False, "another answer"),
        ("So $\\boxed 0.5$.", True, ""),
        ("\\boxed 0.5.", True, ""),
        ("\\boxed{1} no, \\boxed 0.5", True, ""),
        ("\\boxed{0.5} no, \\boxed 1", False, "another answer"),
        ("\\boxed 0.5x", False, "no answer in a box"),
        ("\\boxed 0.5^2", False, "no answer in a box"),
        ("\\boxed{0\u200b.5\ufeff}", True, ""),
        ("\\boxed{" + "5" * 2001 + "}", False, "the answer is too long"),
    ],
)
def test_the_last_box_counts(completion: str, passed: bool, reason: str) -> None:
    grade = TASK.grade({"problem": "?", "answer": "0.5"}, completion)
    assert (grade.passed, grade.score, grade.auxiliary, grade.reason) == (passed, float(passed), 0.0, reason)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\\frac12", "0.5"),
        ("1,2", "2, 1"),
        ("x=5", "5"),
        ("x=1, x=2", "2, 1"),
        ("1,000", "1000"),
        ("\\text{E}", "E"),
    ],
)
def test_equal_answers_have_one_key_for_votes(one: str, other: str) -> None:
    assert key(one) == key(other) != ""
