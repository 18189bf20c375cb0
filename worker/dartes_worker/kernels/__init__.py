"""The noise contract as Triton kernels: the same bits as `dartes.noise.kernel`, on a device."""
