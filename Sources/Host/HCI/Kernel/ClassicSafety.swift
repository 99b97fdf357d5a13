/// Whether this machine may open connections over BR/EDR by sockets of its own.
///
/// Debian's kernels from 6.1.187 on crash when the socket of a connection attempt that no peer has answered is closed.
/// They free the channel of the link a second time: "kernel BUG at lib/list_debug.c", `hci_chan_del` (docs/bluez.md,
/// "Streams"). A kernel branch that nobody has tested for the fault counts as unsafe.
public enum ClassicSafety: Hashable, Sendable {
  case safe
  /// A kernel of this version range was observed to crash.
  case faulty(KernelVersion)
  /// Nobody has tested a kernel of this branch for the fault.
  case untried(KernelVersion?)
  /// The configuration does not allow this machine to open such connections.
  case off

  /// The first release of kernel branch 6.1 with the fault. Kernel 6.1.176 was tested and does not have it.
  private static let faultyFrom = KernelVersion(6, 1, 187)
  /// The kernel branch other than 6.1 that was tested for the fault, and does not have it.
  private static let triedBranch = KernelVersion(6, 12, 0)

  /// The result for a kernel version; nil if the kernel reports none.
  public static func known(_ version: KernelVersion?) -> ClassicSafety {
    guard let version, version.numbering == .stable else { return .untried(version) }
    switch (version.major, version.minor) {
    case (faultyFrom.major, faultyFrom.minor): return version < faultyFrom ? .safe : .faulty(version)
    case (triedBranch.major, triedBranch.minor): return .safe
    default: return .untried(version)
    }
  }

  /// The sentence for `RadioTraits.connectingShortfall`; nil if streams are opened.
  public var shortfall: String? {
    let rest = "Peers can open streams to it."
    switch self {
    case .safe: return nil
    case .faulty(let version):
      return "This machine opens no streams to peers: Linux \(version) may crash if a peer does not answer. \(rest)"
    case .untried(let version):
      return "This machine opens no streams to peers: \(version.map { "Linux \($0)" } ?? "this kernel") was not tested "
        + "(OpenStreams= of [Radio]). \(rest)"
    case .off: return "This machine opens no streams to peers, because of OpenStreams=no of [Radio]. \(rest)"
    }
  }
}
