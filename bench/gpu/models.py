"""Models for the time of a step, with synthetic data: what `loss()` needs is made once.

flat      equal tensors, whose backward costs little: the exchange alone
gpt       a GPT of 124 M parameters (12 layers of 768, a vocabulary of 50,257), 4 x 1,024 tokens
resnet50  25.6 M parameters (He et al. 2016), 32 images of 224 x 224
"""

import torch
from torch import nn
from torch.nn import functional


class Flat(nn.Module):
    TENSORS = 50

    def __init__(self, small, device):
        super().__init__()
        elements = (1_000_000 if small else 25_000_000) // self.TENSORS
        self.parts = nn.ParameterList(nn.Parameter(torch.zeros(elements, device=device)) for _ in range(self.TENSORS))
        self.factors = [torch.rand(elements, device=device) for _ in range(self.TENSORS)]

    def loss(self):
        return sum((part * factor).sum() for part, factor in zip(self.parts, self.factors))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.mixed(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.between(x))))


class Gpt(nn.Module):
    def __init__(self, small, device):
        super().__init__()
        layers, width, heads, words, length, batch = (2, 64, 4, 512, 32, 2) if small else (12, 768, 12, 50257, 1024, 4)
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.last = nn.LayerNorm(width)
        self.to(device)
        self.text = torch.randint(words, (batch, length + 1), device=device)
        self.order = torch.arange(length, device=device)

    def loss(self):
        x = self.layers(self.words(self.text[:, :-1]) + self.places(self.order))
        guesses = functional.linear(self.last(x), self.words.weight)  # the embedding's weight, twice
        return functional.cross_entropy(guesses.flatten(0, 1), self.text[:, 1:].flatten())


def convolution(into, out, size, stride=1):
    return nn.Sequential(nn.Conv2d(into, out, size, stride, size // 2, bias=False), nn.BatchNorm2d(out))


class Bottleneck(nn.Module):
    def __init__(self, into, width, stride):
        super().__init__()
        self.one, self.two = convolution(into, width, 1), convolution(width, width, 3, stride)
        self.three = convolution(width, 4 * width, 1)
        self.around = None if into == 4 * width else convolution(into, 4 * width, 1, stride)

    def forward(self, x):
        y = self.three(functional.relu(self.two(functional.relu(self.one(x)))))
        return functional.relu(y + (x if self.around is None else self.around(x)))


class ResNet50(nn.Module):
    def __init__(self, small, device):
        super().__init__()
        blocks, into = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for number in range(count):
                blocks.append(Bottleneck(into, width, stride if number == 0 else 1))
                into = 4 * width
        self.body = nn.Sequential(convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks,
                                  nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, 1000))
        self.to(device)
        batch, size = (2, 32) if small else (32, 224)
        self.images = torch.randn(batch, 3, size, size, device=device)
        self.classes = torch.randint(1000, (batch,), device=device)

    def loss(self):
        return functional.cross_entropy(self.body(self.images), self.classes)


MODELS = {"flat": Flat, "gpt": Gpt, "resnet50": ResNet50}
