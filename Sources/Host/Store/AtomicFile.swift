import Bytes
import Common
import Crypto
import Glibc

/// A small file that is always whole: as it was before the last write or as it is after it, whenever power is lost.
///
/// The generation before is kept as `NAME.previous`, and read where the present one is damaged.
public struct AtomicFile: Sendable {
  /// What was read, and from which generation.
  public struct Reading<Value: Sendable>: Sendable {
    public let value: Value
    /// Why this is the previous generation: what is wrong with the present one. Nil when nothing is.
    public let damage: StoreError?
  }

  /// No content is longer than this unless its owner says so.
  public static let usualLimit = 1 << 20

  private let directory: any Directory
  private let name: String
  private let version: UInt16
  private let limit: Int
  private let envelope: Envelope

  /// - Parameters:
  ///   - version: of the content as it is written now; a later one is not read.
  ///   - limit: the longest content, in bytes.
  ///   - key: authenticates the file: only who has the key can make one that is read. Without a key a checksum finds
  ///     accidents only.
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
  /// - Parameter body: takes the content apart, given the version it was written in; what it throws as `damaged` counts
  ///   as damage. The content is overwritten afterwards.
  /// - Throws: `damaged` if neither generation is whole, `tooNew`, or what the disk says.
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

  /// The content alone, in the present version or an earlier one; nil if it was never written.
  public func read() throws(StoreError) -> Reading<[UInt8]>? {
    try read { (_, content) throws(StoreError) in Array(content) }
  }

  /// Writes the content; when this returns, it survives a loss of power.
  public func write(_ content: some Collection<UInt8>) throws(StoreError) {
    guard content.count <= limit else {
      throw StoreError(.tooLarge, "\(directory.path(of: name)) cannot hold more than \(limit) bytes.")
    }
    var bytes = envelope.seal(content, version: version)
    defer { bytes.wipe() }
    let keepsPresent = isWhole()
    try directory.replace(name, with: bytes, temporary: "\(name).new") { () throws(StoreError) in
      if keepsPresent { try directory.rename(name, to: previous) }
    }
  }

  private var previous: String { "\(name).previous" }

  /// A damaged file must not take the place of a whole previous one.
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
        .tooNew, "\(PrintableText.clean(path)) was written by a later release. Install that one, or move it away.")
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
