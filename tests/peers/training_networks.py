# SPDX-License-Identifier: Apache-2.0
"""The networks of bench_training.py: the values that they begin with, and their losses in PyTorch. train_networks.c has the same
networks for our side; both take the values in the same order."""
class Values:
    """The values of a network in the order of its file: made from a seed, or read from that file."""

    def __init__(self, name, path=None):
        import numpy  # pylint: disable=import-outside-toplevel

        self.numpy, self.path, self.at = numpy, path, 0
        self.random = numpy.random.default_rng(list(name.encode()))
        self.batch, self.parameters, self.statistics = [], [], []

    def read(self, kind, shape):
        array = self.numpy.fromfile(self.path, kind, int(self.numpy.prod(shape)), offset=self.at).reshape(shape)
        self.at += array.nbytes
        return array

    def normal(self, *shape, scale=1.0, middle=0.0):
        if self.path:
            return self.read(self.numpy.float32, shape)
        return (middle + scale * self.random.standard_normal(shape)).astype(self.numpy.float32)

    def given(self, *shape):
        self.batch.append(self.normal(*shape))

    def labels(self, shape, classes):
        self.batch.append(self.read(self.numpy.int64, shape) if self.path else self.random.integers(0, classes, shape))

    def weight(self, *shape):
        self.parameters.append(self.normal(*shape, scale=(2 / self.numpy.prod(shape[1:])) ** 0.5))

    def vector(self, n, middle=0.0):
        self.parameters.append(self.normal(n, scale=0.1, middle=middle))

    def linear(self, n_in, n_out, bias=True):
        self.weight(n_out, n_in)
        if bias:
            self.vector(n_out)

    def conv(self, channels, filters, window):
        self.weight(filters, channels, window, window)
        self.norm(filters)
        self.statistics += [self.numpy.full(filters, first, self.numpy.float32) for first in (0, 1)]

    def norm(self, n):
        self.vector(n, 1)
        self.vector(n)


BLOCKS = ((64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1))


def mlp_values(v):
    v.given(128, 784)
    v.labels((128,), 10)
    for n_in, n_out in ((784, 512), (512, 512), (512, 10)):
        v.linear(n_in, n_out)


def mlp_loss(f, x, label, take, _):
    x = f.relu(f.linear(x, take(), take()))
    x = f.relu(f.linear(x, take(), take()))
    return f.cross_entropy(f.linear(x, take(), take()), label)


def resnet_values(v):
    v.given(16, 3, 32, 32)
    v.labels((16,), 10)
    v.conv(3, 64, 3)
    for channels, filters, _ in BLOCKS:
        v.conv(channels, filters, 3)
        v.conv(filters, filters, 3)
        if channels != filters:
            v.conv(channels, filters, 1)
    v.linear(256, 10)


def conv_norm(f, x, take, statistic, step, pad):
    x = f.conv2d(x, take(), stride=step, padding=pad)
    scale, bias, mean, variance = take(), take(), statistic(), statistic()
    return f.batch_norm(x, mean, variance, scale, bias, training=True, momentum=0.1)


def resnet_loss(f, x, label, take, statistic):
    def conv(x, step=1, pad=1):
        return conv_norm(f, x, take, statistic, step, pad)

    x = f.relu(conv(x))
    for channels, filters, step in BLOCKS:
        y = conv(f.relu(conv(x, step)))
        x = f.relu(y + (x if channels == filters else conv(x, step, 0)))
    return f.cross_entropy(f.linear(x.mean((2, 3)), take(), take()), label)


def resnet50_blocks():
    """(channels, filters, step) of each block; its last convolution has 4 * filters filters."""
    channels = 64
    for stage, count in enumerate((3, 4, 6, 3)):
        for i in range(count):
            yield channels, 64 << stage, 2 if stage and not i else 1
            channels = 256 << stage


def resnet50_values(v):
    v.given(4, 3, 224, 224)
    v.labels((4,), 1000)
    v.conv(3, 64, 7)
    for channels, filters, _ in resnet50_blocks():
        v.conv(channels, filters, 1)
        v.conv(filters, filters, 3)
        v.conv(filters, 4 * filters, 1)
        if channels != 4 * filters:
            v.conv(channels, 4 * filters, 1)
    v.linear(2048, 1000)


def resnet50_loss(f, x, label, take, statistic):
    x = f.max_pool2d(f.relu(conv_norm(f, x, take, statistic, 2, 3)), 3, 2, 1)
    for channels, filters, step in resnet50_blocks():
        y = f.relu(conv_norm(f, x, take, statistic, 1, 0))
        y = f.relu(conv_norm(f, y, take, statistic, step, 1))
        y = conv_norm(f, y, take, statistic, 1, 0)
        x = f.relu(y + (x if channels == 4 * filters else conv_norm(f, x, take, statistic, step, 0)))
    return f.cross_entropy(f.linear(x.mean((2, 3)), take(), take()), label)


KEYS = 1  # have no bias: it adds the same to all scores of a query, so that its gradient is 0


def encoder_values(v, width, hidden, bias):
    for part in range(3):
        v.linear(width, width, bias and part != KEYS)
    v.linear(width, width)
    v.norm(width)
    v.linear(width, hidden)
    v.linear(hidden, width)
    v.norm(width)


def encoder(f, x, heads, take, bias):
    n, length, width = x.shape
    q, k, v = (f.linear(x, take(), take() if bias and part != KEYS else None) for part in range(3))
    q, k, v = (part.view(n, length, heads, width // heads).transpose(1, 2) for part in (q, k, v))
    y = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, width)
    x = f.layer_norm(f.linear(y, take(), take()) + x, (width,), take(), take())
    y = f.linear(f.gelu(f.linear(x, take(), take())), take(), take())
    return f.layer_norm(y + x, (width,), take(), take())


def transformer_values(v):
    v.given(8, 128, 256)
    v.given(8, 128, 256)
    encoder_values(v, 256, 1024, False)


def transformer_loss(f, x, target, take, _):
    return f.mse_loss(encoder(f, x, 8, take, False), target)


def bert_values(v):
    v.labels((4, 128), 30522)
    v.labels((4,), 2)
    v.weight(30522, 768)
    v.weight(128, 768)
    v.norm(768)
    for _ in range(12):
        encoder_values(v, 768, 3072, True)
    v.linear(768, 768)
    v.linear(768, 2)


def bert_loss(f, ids, label, take, _):
    x = f.embedding(ids, take()) + take()
    x = f.layer_norm(x, (768,), take(), take())
    for _ in range(12):
        x = encoder(f, x, 12, take, True)
    x = f.linear(x[:, 0], take(), take()).tanh()
    return f.cross_entropy(f.linear(x, take(), take()), label)
