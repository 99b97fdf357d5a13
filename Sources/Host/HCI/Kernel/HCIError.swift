import Glibc
import Journal

/// An operation on one of the kernel's Bluetooth sockets that failed.
public enum HCIError: Error, Hashable, Sendable {
  /// The kernel has no Bluetooth, or does not show it to this process: a network namespace, a restricted family.
  case noBluetooth(String)
  /// The process lacks a capability.
  case denied(String)
  /// The controller is gone or switched off.
  case noController
  /// The controller has no such link.
  case noLink
  /// The kernel has no room or no memory at the moment.
  case busy(String)
  /// Any other failure, in the system's words.
  case failed(String)

  /// The error that stands for the kernel's `code` when `call` failed.
  init(_ code: Int32, in call: String) {
    let words = "\(call): \(String(cString: strerror(code)))"
    switch code {
    case EPERM, EACCES: self = .denied("the kernel refuses")
    case EAFNOSUPPORT, EPROTONOSUPPORT: self = .noBluetooth(words)
    // EPIPE and EBADFD are a bound socket's answers after its controller was taken out.
    case ENODEV, ENETDOWN, ENETUNREACH, EPIPE, EBADFD: self = .noController
    case EAGAIN, ENOBUFS, ENOMEM: self = .busy(words)
    default: self = .failed(words)
    }
  }

  /// Whether the error goes away without a person: the next value may well be sent. A radio is `degraded` by the
  /// others only: a missing capability, a kernel without Bluetooth, a refusal that has no name here.
  public var isPassing: Bool {
    switch self {
    case .noController, .noLink, .busy: true
    case .noBluetooth, .denied, .failed: false
    }
  }
}

extension HCIError: CustomStringConvertible, Loggable {
  public var logText: String { description }

  /// The error in a few words, for a sentence that says what to do.
  public var description: String {
    switch self {
    case .noBluetooth: "no Bluetooth sockets"
    case .denied(let words): words
    case .noController: "the controller is gone"
    case .noLink: "there is no such link"
    case .busy(let words): words
    case .failed(let words): words
    }
  }
}
