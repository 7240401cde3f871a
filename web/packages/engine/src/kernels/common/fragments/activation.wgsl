// The activations of ir.h, and functions that WGSL leaves too imprecise. tanh by its series near 0
// and by exp elsewhere: the built-in one overflows on some drivers.
fn tanh_of(x: f32) -> f32 {
  let size = abs(x);
  if (size < 0.2) {
    let s = x * x;
    return x * (1.0 + s * (-0.33333334 + s * (0.13333334 + s * -0.053968254)));
  }
  let e = exp(2.0 * min(size, 20.0));
  return sign(x) * (1.0 - 2.0 / (e + 1.0));
}

// Abramowitz and Stegun 7.1.26: off by at most 1.5e-7.
fn erf_of(x: f32) -> f32 {
  let size = abs(x);
  let t = 1.0 / (1.0 + 0.3275911 * size);
  let series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t +
    0.254829592) * t;
  return sign(x) * (1.0 - series * exp(-min(size * size, 80.0)));
}

fn sigmoid(x: f32) -> f32 {
  return 1.0 / (1.0 + exp(-clamp(x, -80.0, 80.0)));
}

fn gated(gate: f32, up: f32, kind: u32) -> f32 {
  switch (kind) {
    case kActivationGeluTanh: {
      return 0.5 * gate * (1.0 + tanh_of(0.7978845608 * (gate + 0.044715 * gate * gate * gate))) *
        up;
    }
    case kActivationGelu: {
      return 0.5 * gate * (1.0 + erf_of(gate * 0.70710678)) * up;
    }
    case kActivationSwigluOai: {
      let limited = min(gate, 7.0);
      return limited * sigmoid(1.702 * limited) * (clamp(up, -7.0, 7.0) + 1.0);
    }
    case kActivationRelu: {
      return max(gate, 0.0) * up;
    }
    default: {
      return gate * sigmoid(gate) * up;
    }
  }
}
