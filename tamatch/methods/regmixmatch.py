"""RegMixMatch (Han et al., AAAI 2025, arXiv:2412.10741)."""

from typing import Annotated, NamedTuple

import torch
from torch import Tensor, nn

from .. import dist, kinds
from ..losses import each_ce, each_mse, one_hot
from ..pseudo import Pseudo
from ..types import Batch, Loss, Task
from .freematch import FreeMatch
from .mixing import Box, Mixed, Span, beta_logit

SureTau = Annotated[float, kinds.FRACTION, "confidence from which a mixed image has a hard label"]
ClassAwareWeight = Annotated[
    float, kinds.AT_LEAST_ZERO, "weight of the loss on mixed images that are not sure"
]
CROP, SMALLEST, LARGEST = 0.9, 0.1, 0.8  # ResizeMix: the part that is pasted, and its size


class RegMixMatch(FreeMatch):
    """FreeMatch, and losses on strong views into which another image was pasted, made smaller.

    L = L_FreeMatch + λ_mix·L_srm + λ_cam·L_cam,  c = max p^w,  sure if labelled or c ≥ τ_mix,
    x̃ = ResizeMix(s, s′),  ỹ = λq + (1−λ)·1[y′],  λ the share of s in x̃;  s′ and y′ always sure.
    L_srm = (1/Bu) Σ_sure H(ỹ, p(x̃)),  q = 1[y],  s′ any sure one,
    L_cam = E_rest[c³] · E_rest[(1/C)‖p(x̃) − ỹ‖²],  q = p^w,  s′ with y′ = ŷ in every second step
    (x̃ = s and ỹ = q where there is none), any sure one in the others.
    ResizeMix pastes nine tenths of s′ into one box for the whole batch, √b of the way from a tenth
    to eight tenths of the sides, b ~ Beta(α, α), α = 1 for the sure and 16 for the rest.

    From github.com/hhrd9/regmixmatch. Its files for USB have no L_cam and τ_mix = 0.99, as the
    recipes of transformers do; its others leave labelled images out of L_srm below 100 labels a
    class, and bound the thresholds on SVHN. The paper speaks of the two likeliest classes in L_cam,
    the code has the first. `parity="usb"` is FreeMatch's.
    """

    alters_inputs = True

    def __init__(
        self,
        net: nn.Module,
        task: Task,
        *,
        tau_mix: SureTau = 0.999,  # their τ_m
        lambda_mix: kinds.MixWeight = 1.0,
        lambda_cam: ClassAwareWeight = 1.0,
        alpha: kinds.Alpha = 1.0,  # their α_h
        alpha_cam: kinds.Alpha = 16.0,  # their α_l
        lambda_f: kinds.FairnessWeight = 0.01,  # their λ_e
        **freematch: kinds.Inherited,
    ) -> None:
        super().__init__(net, task, lambda_f=lambda_f, **freematch)
        self.tau_mix, self.alphas = tau_mix, (alpha, alpha_cam)
        self.lambda_mix, self.lambda_cam = lambda_mix, lambda_cam

    def forward(self, batch: Batch) -> Loss:
        pseudo, loss = self.labels_and_loss(batch)
        sure = (pseudo.p.amax(-1) >= self.tau_mix).float()
        mixed = self.mix(batch, pseudo, sure)
        (out,) = self.predict(mixed.images)
        srm = (mixed.mask * each_ce(out.logits, mixed.target)).sum() / len(sure)
        size, rest = len(batch.y), 1 - sure
        away = each_mse(out.logits[size:].softmax(-1), mixed.target[size:])
        count = dist.sum_(rest.sum()).clamp(min=1)
        doubt = dist.sum_((rest * pseudo.p.amax(-1) ** 3).sum()) / count
        cam = doubt * dist.total((rest * away).sum()) / count
        total = loss.total + self.lambda_mix * srm + self.lambda_cam * cam
        return Loss(total, {**loss.parts, "mixed": srm.detach(), "class_aware": cam.detach()})

    def mix(self, batch: Batch, pseudo: Pseudo, sure: Tensor) -> Mixed:
        """Labelled images and strong views, all with another one in them; `mask` is who is sure."""
        views, labels = (batch.x[0], batch.u[1]), (batch.y, pseudo.label)
        surely = (torch.ones_like(batch.y, dtype=sure.dtype), sure)
        sizes = [dist.world() * len(view) for view in views]
        draw = mix_draw(sizes[0], sizes[1], self.alphas, sure.device)
        donors, their, trusted = (
            torch.cat([dist.gather(part) for part in pair]) for pair in (views, labels, surely)
        )
        found, there = partners(their, trusted, sizes[0], draw)
        partner, there = dist.mine(found, sizes), dist.mine(there, sizes)
        images, mask = torch.cat(views), torch.cat(surely)
        known = one_hot(torch.cat(labels), pseudo.p.shape[-1])
        doubted = torch.where(sure[:, None] > 0, known[len(batch.y) :], pseudo.p)
        q = torch.cat([known[: len(batch.y)], doubted])
        target = one_hot(their[partner], pseudo.p.shape[-1])
        for chosen, box in ((mask > 0, 0), ((mask == 0) & there, 1)):
            place = Box(images, draw.side[box], draw.centre[box])
            pasted, lam = place.paste(images, shrunk(donors[partner], place))
            images = torch.where(chosen.view(-1, *[1] * (images.dim() - 1)), pasted, images)
            q = torch.where(chosen[:, None], lam * q + (1 - lam) * target, q)
        return Mixed(images, q, mask)


def shrunk(images: Tensor, box: Box) -> Tensor:
    """The middle of the images, as small as the box and at its place."""
    rows, columns = map(sources, box.spans)
    maps = images.reshape(len(images), -1, len(rows), len(columns))
    return maps[:, :, rows[:, None], columns].reshape(images.shape)


def sources(span: Span) -> Tensor:
    """For each i the nearest of those in the middle, if these fill the span."""
    kept = max(int(span.size * CROP), 1)
    place = (span.cells - span.first) * kept // (span.end - span.first).clamp(min=1)
    return place.clamp(0, kept - 1) + (span.size - kept) // 2


class Draw(NamedTuple):
    """The random numbers of a step: two boxes, and who is mixed with whom."""

    side: Tensor  # (2,)
    centre: Tensor  # (2, 2)
    order: Tensor  # (B + Bu,)
    choice: Tensor  # (Bu, B + Bu)
    any_class: Tensor  # whether the rest takes its partners from all classes


def mix_draw(size: int, rest: int, alphas: tuple[float, float], device: torch.device) -> Draw:
    share = torch.stack([beta_logit((), alpha, device).sigmoid() for alpha in alphas]).sqrt()
    every = size + rest
    sizes: tuple[tuple[int, ...], ...] = ((2, 2), (every,), (rest, every), ())
    centre, order, choice, coin = (torch.rand(shape, device=device) for shape in sizes)
    return Draw(SMALLEST + (LARGEST - SMALLEST) * share, centre, order, choice, coin >= 0.5)


def partners(labels: Tensor, sure: Tensor, size: int, draw: Draw) -> tuple[Tensor, Tensor]:
    """A sure partner of each row, and whether there is one.

    The sure ones are permuted; each of the rest, of which there are none before row `size`,
    chooses freely among them, or among those with its label.
    """
    shuffled = (draw.order + 2 * (1 - sure)).argsort()  # the sure ones first, in a random order
    permuted = shuffled[sure.long().cumsum(0) - 1]
    fitting = (labels == labels[size:, None]) | draw.any_class
    liking = torch.where(fitting & (sure > 0), draw.choice, -1.0)
    chosen = torch.cat([permuted[:size], liking.argmax(-1)])
    there = torch.cat([torch.ones_like(labels[:size], dtype=torch.bool), liking.amax(-1) >= 0])
    return torch.where(sure > 0, permuted, chosen), there | (sure > 0)
