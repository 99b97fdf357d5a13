import Glibc
import Journal

/// What the kernel's Bluetooth sockets could not do for us.
public enum HCIError: Error, Hashable, Sendable {
  /// This kernel has no Bluetooth, or does not let this process see it: a network namespace, a restricted family.
  case noBluetooth(String)
  /// A capability is missing.
  case denied(String)
  /// The controller is gone or switched off.
  case noController
  /// There is no such link.
  case noLink
  /// Anything else, in the system's words.
  case failed(String)

  /// What the kernel means by `code` when `call` failed.
  init(_ code: Int32, in call: String) {
    let words = "\(call): \(String(cString: strerror(code)))"
    switch code {
    case EPERM, EACCES: self = .denied("the kernel refuses")
    case EAFNOSUPPORT, EPROTONOSUPPORT: self = .noBluetooth(words)
    case ENODEV, ENETDOWN, ENETUNREACH: self = .noController
    default: self = .failed(words)
    }
  }
}

extension HCIError: CustomStringConvertible, Loggable {
  public var logText: String { description }

  /// In a few words, for a sentence that says what to do.
  public var description: String {
    switch self {
    case .noBluetooth: "no Bluetooth sockets"
    case .denied(let words): words
    case .noController: "the controller is gone"
    case .noLink: "there is no such link"
    case .failed(let words): words
    }
  }
}
