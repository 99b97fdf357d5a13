import Glibc
import Journal

/// An error of one of the kernel's Bluetooth sockets.
public enum HCIError: Error, Hashable, Sendable {
  /// The kernel has no Bluetooth, or this process has no access to it: because of a network namespace, or restricted
  /// address families.
  case noBluetooth(String)
  /// The process lacks a capability.
  case denied(String)
  /// The controller does not exist or is off.
  case noController
  /// The controller has no such link.
  case noLink
  /// The kernel temporarily has no buffer space or memory.
  case busy(String)
  /// Any other failure, in the system's words.
  case failed(String)

  /// Converts the `errno` value of the system call `call`.
  init(_ code: Int32, in call: String) {
    let words = "\(call): \(String(cString: strerror(code)))"
    switch code {
    case EPERM, EACCES: self = .denied("the kernel denied permission")
    case EAFNOSUPPORT, EPROTONOSUPPORT: self = .noBluetooth(words)
    // A bound socket returns EPIPE or EBADFD after its controller was unplugged.
    case ENODEV, ENETDOWN, ENETUNREACH, EPIPE, EBADFD: self = .noController
    case EAGAIN, ENOBUFS, ENOMEM: self = .busy(words)
    default: self = .failed(words)
    }
  }

  /// Whether the error is transient: the next value may succeed. Only other errors make a radio `degraded`: a missing
  /// capability, a kernel without Bluetooth, or an unknown refusal.
  public var isPassing: Bool {
    switch self {
    case .noController, .noLink, .busy: true
    case .noBluetooth, .denied, .failed: false
    }
  }
}

extension HCIError: CustomStringConvertible, Loggable {
  public var logText: String { description }

  /// A short description, for a sentence with instructions.
  public var description: String {
    switch self {
    case .noBluetooth: "the kernel has no Bluetooth sockets"
    case .denied(let words): words
    case .noController: "the controller was removed"
    case .noLink: "the link does not exist"
    case .busy(let words): words
    case .failed(let words): words
    }
  }
}
