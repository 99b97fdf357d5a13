import Bytes
import Common
import Crypto
import Glibc

/// A small file that is always complete: after a loss of power it has the content before or after the last write.
///
/// The previous generation is stored as `NAME.previous`, and read if the present one is damaged.
public struct AtomicFile: Sendable {
  /// The content that was read, and its generation.
  public struct Reading<Value: Sendable>: Sendable {
    public let value: Value
    /// The damage of the present generation, if the content is of the previous one; nil otherwise.
    public let damage: StoreError?
  }

  /// Default limit of the content, in bytes.
  public static let usualLimit = 1 << 20

  private let directory: any Directory
  private let name: String
  private let version: UInt16
  private let limit: Int
  private let envelope: Envelope

  /// - Parameters:
  ///   - version: the version of the content that is written; content of a later version is not read.
  ///   - limit: maximum content, in bytes.
  ///   - key: authenticates the file, so that only owners of the key can create valid files. Without a key, a checksum
  ///     detects accidental damage only.
  public init(
    _ name: String, in directory: any Directory, version: UInt16, limit: Int = usualLimit, key: SecretBytes? = nil
  ) {
    self.directory = directory
    self.name = name
    self.version = version
    self.limit = min(limit, Int(UInt32.max))
    envelope = Envelope(name: name, key: key)
  }

  /// Reads the file; nil if it was never written.
  ///
  /// - Parameter body: parses the content, given its version. An error `damaged` of it counts as damage. The content is
  ///   overwritten afterwards.
  /// - Throws: `damaged` if neither generation is valid, `tooNew`, or an error of the disk.
  public func read<Value: Sendable>(
    _ body: (UInt16, ArraySlice<UInt8>) throws(StoreError) -> Value
  ) throws(StoreError) -> Reading<Value>? {
    let damage: StoreError
    do throws(StoreError) {
      if let value = try read(name, body) { return Reading(value: value, damage: nil) }
      damage = StoreError(errno: ENOENT, "read", directory.path(of: name))
    } catch {
      guard Self.isDamage(error) else { throw error }
      damage = error
    }
    do throws(StoreError) {
      if let value = try read(previous, body) { return Reading(value: value, damage: damage) }
    } catch {
      guard Self.isDamage(error) else { throw error }
      throw damage.reason == .missing ? error : damage
    }
    if damage.reason == .missing { return nil }
    throw damage
  }

  /// The unparsed content, in the present version or an earlier one; nil if it was never written.
  public func read() throws(StoreError) -> Reading<[UInt8]>? {
    try read { (_, content) throws(StoreError) in Array(content) }
  }

  /// Writes the content; when this returns, it survives a loss of power.
  public func write(_ content: some Collection<UInt8>) throws(StoreError) {
    guard content.count <= limit else {
      throw StoreError(
        .tooLarge,
        "\(directory.path(of: name)) cannot be written: its content exceeds the limit of \(limit) bytes.")
    }
    var bytes = envelope.seal(content, version: version)
    defer { bytes.wipe() }
    let keepsPresent = isWhole()
    try directory.replace(name, with: bytes, temporary: "\(name).new") { () throws(StoreError) in
      if keepsPresent { try directory.rename(name, to: previous) }
    }
  }

  private var previous: String { "\(name).previous" }

  /// Whether the present file is valid. A damaged present file must not replace a valid file of the previous
  /// generation.
  private func isWhole() -> Bool {
    do throws(StoreError) {
      return try read(name) { (_, _) throws(StoreError) in true } ?? false
    } catch {
      return error.reason == .tooNew
    }
  }

  private func read<Value>(
    _ name: String, _ body: (UInt16, ArraySlice<UInt8>) throws(StoreError) -> Value
  ) throws(StoreError) -> Value? {
    let path = directory.path(of: name)
    guard var bytes = try directory.contents(of: name, limit: limit + Envelope.headerSize) else { return nil }
    defer { bytes.wipe() }
    let version: UInt16
    let content: Range<Int>
    do throws(WireError) {
      let opened = try envelope.open(bytes)
      version = opened.version
      content = opened.content.indices
    } catch {
      throw .damaged(path, "\(error)")
    }
    guard version <= self.version else {
      throw StoreError(
        .tooNew,
        "\(PrintableText.clean(path)) was written by a later release. Install that release, or move the file away.")
    }
    return try body(version, bytes[content])
  }

  private static func isDamage(_ error: StoreError) -> Bool {
    switch error.reason {
    case .damaged, .diskFailed, .tooLarge, .wrongKind: true
    default: false
    }
  }
}
