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

  /// The running kernel.
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

  /// Up to three numbers separated by points, and the rest of the text; nil if there is no number.
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
