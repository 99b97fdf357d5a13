/// Whether a kernel counts the packets of a link right that the kernel itself did not send.
///
/// A controller reports each packet that it is through with. Kernels without commit 15bf2c6391ba subtract the report for
/// a packet that raw HCI sent from `conn->sent`, which goes below zero and wraps; the kernel then sends nothing more of
/// its own on that link, or only after all others. The repair came with 6.17, and on 4 September 2025 with one release
/// of each stable branch (the announcements of those releases list it). Facts: bluez.md section 13.
public enum KernelRepair: Hashable, Sendable {
  case present
  /// The kernel's number is below `repaired`, the first release of its branch with the repair; a vendor may have taken
  /// the repair over all the same.
  case missing(KernelVersion, repaired: KernelVersion)
  /// The kernel's number does not tell: a vendor's own count, a branch that ended before, a release candidate.
  case unknown(KernelVersion?)

  /// The first mainline release with the repair.
  static let mainline = KernelVersion(6, 17, 0)
  /// The first release with the repair of each branch before.
  static let branches = [
    KernelVersion(5, 4, 298), KernelVersion(5, 10, 242), KernelVersion(5, 15, 191), KernelVersion(6, 1, 150),
    KernelVersion(6, 6, 104), KernelVersion(6, 12, 45), KernelVersion(6, 16, 5),
  ]

  /// What the number of a kernel says; nil where the kernel gives none.
  public static func known(_ version: KernelVersion?) -> KernelRepair {
    guard let version else { return .unknown(nil) }
    // The repair came into 6.17 with one of its candidates.
    if version == KernelVersion(mainline.major, mainline.minor, 0, .candidate) { return .unknown(version) }
    if version >= mainline { return .present }
    let branch = branches.first { ($0.major, $0.minor) == (version.major, version.minor) }
    guard let branch, version.numbering == .stable else { return .unknown(version) }
    return version < branch ? .missing(version, repaired: branch) : .present
  }

  /// A sentence for `RadioStatus.limits`, where values go by raw HCI; nil where the kernel has the repair.
  public var limit: String? {
    switch self {
    case .present: nil
    case .missing(let version, let repaired):
      "Linux \(version) may stall the link of a client that got a value by raw HCI: only clients that never subscribed"
        + " get one. \(repaired) has the repair."
    case .unknown(let version):
      "Linux\(version.map { " \($0)" } ?? "") may stall the link of a client that got a value by raw HCI, if the vendor"
        + " left out the repair of 2025: only clients that never subscribed get one."
    }
  }
}
