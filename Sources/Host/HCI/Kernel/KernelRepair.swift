/// Whether a kernel correctly counts packets that raw HCI sent.
///
/// A controller reports each packet that it has completed. Kernels without commit 15bf2c6391ba subtract the report for
/// a packet from raw HCI from `conn->sent`, which becomes negative and wraps. The kernel then no longer sends its own
/// packets on that link, or only after all others.
///
/// The fix is in Linux 6.17 and, since releases of 4 September 2025, in each stable branch (the announcements of those
/// releases list it). Facts: bluez.md section 13.
public enum KernelRepair: Hashable, Sendable {
  case present
  /// The kernel's version is below `repaired`, the first release of its branch with the fix; a vendor may have
  /// backported it.
  case missing(KernelVersion, repaired: KernelVersion)
  /// The version is not sufficient: a vendor's own numbering, a branch that ended earlier, or a release candidate.
  case unknown(KernelVersion?)

  /// The first mainline release with the fix.
  static let mainline = KernelVersion(6, 17, 0)
  /// The first release of each earlier branch with the fix.
  static let branches = [
    KernelVersion(5, 4, 298), KernelVersion(5, 10, 242), KernelVersion(5, 15, 191), KernelVersion(6, 1, 150),
    KernelVersion(6, 6, 104), KernelVersion(6, 12, 45), KernelVersion(6, 16, 5),
  ]

  /// The result for a kernel version; nil if the kernel reports none.
  public static func known(_ version: KernelVersion?) -> KernelRepair {
    guard let version else { return .unknown(nil) }
    // Only later release candidates of 6.17 contain the fix.
    if version == KernelVersion(mainline.major, mainline.minor, 0, .candidate) { return .unknown(version) }
    if version >= mainline { return .present }
    let branch = branches.first { ($0.major, $0.minor) == (version.major, version.minor) }
    guard let branch, version.numbering == .stable else { return .unknown(version) }
    return version < branch ? .missing(version, repaired: branch) : .present
  }

  /// A sentence for `RadioStatus.limits`, if values are sent by raw HCI; nil if the kernel has the fix.
  public var limit: String? {
    switch self {
    case .present: nil
    case .missing(let version, let repaired):
      "Linux \(version) may stall the link of a client after a value sent by raw HCI. Such values are sent only to "
        + "clients that never subscribed. \(repaired) has the fix."
    case .unknown(let version):
      "Linux\(version.map { " \($0)" } ?? "") may stall the link of a client after a value sent by raw HCI, unless it "
        + "has the fix of 2025. Such values are sent only to clients that never subscribed."
    }
  }
}
