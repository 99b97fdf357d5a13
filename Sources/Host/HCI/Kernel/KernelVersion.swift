import Glibc

/// A Linux release, for example 6.1.150.
public struct KernelVersion: Hashable, Sendable, Comparable, CustomStringConvertible {
  /// The numbering scheme of the three numbers.
  public enum Numbering: Hashable, Sendable {
    /// A release of kernel.org.
    case stable
    /// A release of a vendor with its own numbering and a last number of 0: `6.8.0-79-generic`.
    case vendor
    /// A release candidate.
    case candidate
  }

  public var major: Int
  public var minor: Int
  public var patch: Int
  public var numbering: Numbering

  public init(_ major: Int, _ minor: Int, _ patch: Int, _ numbering: Numbering = .stable) {
    self.major = major
    self.minor = minor
    self.patch = patch
    self.numbering = numbering
  }

  /// Parses `uname -r` and `uname -v`; nil if there is no number.
  ///
  /// Debian's release is the ABI version (`6.1.0-56-amd64`); the second line contains the real one
  /// (`#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-07-13)`), on a Raspberry Pi after an epoch (`Debian 1:6.12.47-1`).
  public init?(release: String, version: String = "") {
    if let debian = Self.debian(version) {
      self = debian
      return
    }
    guard let (numbers, suffix) = Self.numbers(release[...]), numbers.count >= 2 else { return nil }
    let patch = numbers.count > 2 ? numbers[2] : 0
    let numbering: Numbering = patch > 0 || suffix.isEmpty ? .stable : .vendor
    self.init(numbers[0], numbers[1], patch, suffix.hasPrefix("-rc") ? .candidate : numbering)
  }

  /// The version of the running kernel, from uname(2); nil if it cannot be parsed.
  public static let running: KernelVersion? = {
    var name = utsname()
    guard uname(&name) == 0 else { return nil }
    func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
    let release = withUnsafeBytes(of: &name.release) { text($0) }
    return KernelVersion(release: release, version: withUnsafeBytes(of: &name.version) { text($0) })
  }()

  private static func debian(_ version: String) -> KernelVersion? {
    let words = version.split(separator: " ")
    guard let name = words.firstIndex(of: "Debian"), name + 1 < words.endIndex else { return nil }
    let word = words[name + 1]
    let afterEpoch = word.firstIndex(of: ":").map { word[word.index(after: $0)...] } ?? word
    guard let (numbers, suffix) = numbers(afterEpoch), numbers.count == 3 else { return nil }
    return KernelVersion(numbers[0], numbers[1], numbers[2], suffix.hasPrefix("~rc") ? .candidate : .stable)
  }

  /// Parses up to three numbers separated by points, and returns them with the rest of the text; nil if there is no
  /// number.
  private static func numbers(_ text: Substring) -> (numbers: [Int], suffix: Substring)? {
    var (numbers, suffix): ([Int], Substring) = ([], text)
    while numbers.count < 3 {
      let point = numbers.isEmpty ? 0 : 1
      guard point == 0 || suffix.first == "." else { break }
      let digits = suffix.dropFirst(point).prefix { ("0"..."9").contains($0) }
      guard let number = Int(digits), number <= 9999 else { break }
      numbers.append(number)
      suffix = suffix.dropFirst(point + digits.count)
    }
    return numbers.isEmpty ? nil : (numbers, suffix)
  }

  public static func < (left: KernelVersion, right: KernelVersion) -> Bool {
    (left.major, left.minor, left.patch) < (right.major, right.minor, right.patch)
  }

  public var description: String { "\(major).\(minor).\(patch)" }
}

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
  /// The version does not decide: it has a vendor's own numbering, is of a branch that ended earlier, or is a release
  /// candidate.
  case unknown(KernelVersion?)

  /// The first mainline release with the fix.
  static let mainline = KernelVersion(6, 17, 0)
  /// The first release of each earlier branch with the fix.
  static let branches = [
    KernelVersion(5, 4, 298), KernelVersion(5, 10, 242), KernelVersion(5, 15, 191), KernelVersion(6, 1, 150),
    KernelVersion(6, 6, 104), KernelVersion(6, 12, 45), KernelVersion(6, 16, 5),
  ]

  /// The result for a kernel version.
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
