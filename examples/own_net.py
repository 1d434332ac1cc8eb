"""Your own nets in one file: a small CNN, and torchvision's ResNet-18 for small images.

tamatch train --net examples/own_net.py:SmallCNN
"""

from __future__ import annotations

from torch import Tensor, nn


class SmallCNN(nn.Module):
    def __init__(self, classes: int, width: int = 32) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, 2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(2 * width, classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.body(images))


def resnet(classes: int, size: int) -> nn.Module:
    """ResNet-18; below 64 pixels its first layers would throw most of an image away."""
    from torchvision.models import resnet18

    net = resnet18(num_classes=classes)
    if size < 64:
        net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    return net
