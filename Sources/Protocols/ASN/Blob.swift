import Bytes
import Crypto

/// The one object of the protocol. It is stored and forwarded verbatim, because its sum covers every octet.
/// Facts: asn.md sections 4 and 7
///
///     version, id   2, 0 and 8
///     magic         8, "asnmagic"
///     random        32
///     owner         32
///     author        32
///     epoch         8, nanoseconds since 1970
///     name length   1
///     name          UTF-8
///     content       the rest
public struct Blob: Hashable, Sendable {
  public static let magic = Array("asnmagic".utf8)
  /// Number of octets before the name.
  public static let fixedHeader = 115

  /// The octets of the whole blob: header, name and content.
  public let bytes: [UInt8]
  public let header: BlobHeader

  /// Reads a whole blob PDU.
  ///
  /// Throws `badValue("magic")` and `truncated`. A name that `BlobName` refuses is not an error here: `header.name` is
  /// then nil.
  public init(_ bytes: [UInt8]) throws(WireError) {
    var reader = ByteReader(bytes)
    guard try reader.bytes(2).elementsEqual([0, PDU.Identifier.blob.rawValue]) else { throw .badValue("id") }
    guard try reader.bytes(Self.magic.count).elementsEqual(Self.magic) else { throw .badValue("magic") }
    _ = try reader.bytes(32)
    let owner = try UserKey(reading: &reader)
    let author = try UserKey(reading: &reader)
    let epoch = try reader.u64be()
    let name = try reader.bytes(Int(try reader.u8()))
    self.bytes = bytes
    header = BlobHeader(
      sum: Sum(of: bytes), owner: owner, author: author, epoch: epoch, name: try? BlobName(octets: name),
      contentStart: Self.fixedHeader + name.count, size: bytes.count)
  }

  /// Makes a new blob.
  ///
  /// - Parameter random: 32 octets that distinguish blobs of equal content.
  public init(
    owner: UserKey, author: UserKey, epoch: UInt64, name: BlobName, content: some Collection<UInt8>, random: [UInt8]
  ) {
    var writer = ByteWriter(capacity: Self.fixedHeader + name.text.utf8.count + content.count)
    writer.u8(0)
    writer.u8(PDU.Identifier.blob.rawValue)
    writer.append(Self.magic)
    writer.append(random.prefix(32))
    writer.append([UInt8](repeating: 0, count: max(0, 32 - random.count)))
    writer.append(owner.bytes)
    writer.append(author.bytes)
    writer.u64be(epoch)
    writer.u8(UInt8(truncatingIfNeeded: name.text.utf8.count))
    writer.append(name.text.utf8)
    let start = writer.bytes.count
    writer.append(content)
    bytes = writer.bytes
    header = BlobHeader(
      sum: Sum(of: bytes), owner: owner, author: author, epoch: epoch, name: name, contentStart: start,
      size: bytes.count)
  }

  public var sum: Sum { header.sum }
  public var content: ArraySlice<UInt8> { bytes[min(header.contentStart, bytes.count)...] }
}

/// The fields of a blob that a store has in a row beside the blob's octets.
public struct BlobHeader: Hashable, Sendable {
  public let sum: Sum
  public let owner: UserKey
  public let author: UserKey
  /// Time of the blob, in nanoseconds since 1970.
  public let epoch: UInt64
  /// The blob's name; nil if the name is not valid. A blob without a valid name is never stored.
  public let name: BlobName?
  /// Offset of the content in the whole blob, in octets.
  public let contentStart: Int
  /// Size of the whole blob, in octets.
  public let size: Int

  public init(
    sum: Sum, owner: UserKey, author: UserKey, epoch: UInt64, name: BlobName?, contentStart: Int, size: Int
  ) {
    (self.sum, self.owner, self.author, self.epoch) = (sum, owner, author, epoch)
    (self.name, self.contentStart, self.size) = (name, contentStart, size)
  }

  /// Size of the content, in octets.
  public var contentSize: Int { max(0, size - contentStart) }
}

/// The name that a blob has within its owner's directory.
///
/// A name is at most 255 octets of UTF-8 without control characters. It has components between slashes, none of which
/// is empty, `.` or `..`; so it never begins with a slash. No slash forms one character with its neighbour, as one
/// before U+0301 would. Code that compares characters, as Swift does, therefore finds the same components as code that
/// compares octets, as file systems do. An empty name is that of a message. A name that ends with a slash is derived:
/// the blob is linked below it under its sum.
public struct BlobName: Hashable, Sendable, Comparable {
  public let text: String

  /// Checks a name. Throws `tooLong` or `badValue`.
  public init(_ text: String) throws(WireError) {
    guard text.utf8.count <= Limits.name else { throw .tooLong(field: "name", limit: Limits.name) }
    guard text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { throw .badValue("name") }
    guard text.count(where: { $0 == "/" }) == text.utf8.count(where: { $0 == 0x2F }) else { throw .badValue("name") }
    let parts = (text.hasSuffix("/") ? text.dropLast() : text[...]).split(
      separator: "/", omittingEmptySubsequences: false)
    if !text.isEmpty {
      guard parts.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." }) else { throw .badValue("name") }
    }
    self.text = text
  }

  init(octets: ArraySlice<UInt8>) throws(WireError) {
    guard let text = String(validating: octets, as: UTF8.self) else { throw .badValue("name") }
    try self.init(text)
  }

  private init(known text: String) { self.text = text }

  /// Whether the blob is a message: it has the empty name, or one of the two that the original servers treat as empty.
  public var isMessage: Bool { text.isEmpty || text == "asn/messages" || text == "asn/messages/" }
  /// Whether only the server makes links below the name. A user who wrote there could forge vouchers and messages of
  /// others.
  public var isReserved: Bool {
    !isMessage
      && ["asn/messages/", "asn/references/", "asn/approvals/", "asn/removals/"].contains {
        text.hasPrefix($0) && text != $0
      }
      || text == BlobName.references
  }
  /// Whether links to the blob are made in a directory below the name, each named by the blob's sum.
  public var isDerived: Bool { text.hasSuffix("/") || isMessage }

  /// Returns the name that the link to a blob with this name and sum has in its owner's directory.
  public func link(_ sum: Sum) -> String {
    let base = String(sum.hex.prefix(64))
    if isMessage { return "asn/messages/" + base }
    return isDerived ? text + base : text
  }

  public static func < (left: BlobName, right: BlobName) -> Bool { left.text < right.text }

  public static let message = BlobName(known: "")
  public static let auth = BlobName(known: "asn/auth")
  public static let author = BlobName(known: "asn/author")
  public static let user = BlobName(known: "asn/user")
  public static let editors = BlobName(known: "asn/editors")
  public static let moderators = BlobName(known: "asn/moderators")
  public static let subscribers = BlobName(known: "asn/subscribers")
  public static let mark = BlobName(known: "asn/mark")
  public static let bridge = BlobName(known: "asn/bridge")
  public static let removals = BlobName(known: "asn/removals/")
  public static let approvals = BlobName(known: "asn/approvals/")
  public static let vouchers = BlobName(known: "asn/vouchers/")
  /// The directory of links to messages.
  public static let messages = "asn/messages/"
  public static let references = "asn/references/"
}

/// The kind of a user: the content of its blob `asn/user`.
public enum UserKind: String, Sendable, CaseIterable {
  case actual, forum, bridge, place

  /// Whether a user with this kind may log in.
  public var mayLogIn: Bool { self == .actual }
}

/// The content of a blob `asn/mark`. Facts: asn.md section 8
///
///     user          8, the first octets of the key
///     latitude      4, signed millionths of a degree      or   0x70 | eta    1
///     longitude     4, the same                                place         7, the first octets of the place's key
public struct Mark: Hashable, Sendable {
  public static let size = 16
  public enum Position: Hashable, Sendable {
    /// Coordinates in millionths of a degree, positive to the north and east.
    case coordinates(latitude: Int32, longitude: Int32)
    /// The first seven octets of a place's key, and the estimated time of arrival: 0 to 15, where 0 means that the user
    /// is at the place.
    case place([UInt8], eta: UInt8)
  }

  /// The first eight octets of the user's key.
  public let user: [UInt8]
  public let position: Position

  public init(user: UserKey, position: Position) {
    (self.user, self.position) = (Array(user.bytes.prefix(8)), position)
  }

  /// The mark that ends the sharing of a user's position: the user's own key as the place.
  public init(ending user: UserKey) {
    self.init(user: user, position: .place(Array(user.bytes.prefix(7)), eta: 0))
  }

  /// Decodes a mark. Throws `truncated` or `trailing` for anything but 16 octets, and `badValue` for coordinates out of
  /// range.
  public init(_ content: ArraySlice<UInt8>) throws(WireError) {
    var reader = ByteReader(content)
    user = Array(try reader.bytes(8))
    let position = try reader.bytes(8)
    try reader.finish()
    let first = position[position.startIndex]
    if first & 0xF0 == 0x70 {
      self.position = .place(Array(position.dropFirst()), eta: first & 0x0F)
      return
    }
    var numbers = ByteReader(position)
    let latitude = Int32(bitPattern: try numbers.u32be())
    let longitude = Int32(bitPattern: try numbers.u32be())
    guard (-90_000_000...90_000_000).contains(latitude) else { throw .badValue("latitude") }
    guard (-180_000_000...180_000_000).contains(longitude) else { throw .badValue("longitude") }
    self.position = .coordinates(latitude: latitude, longitude: longitude)
  }

  public var bytes: [UInt8] {
    var writer = ByteWriter(capacity: Self.size)
    writer.append(user)
    switch position {
    case .coordinates(let latitude, let longitude):
      writer.u32be(UInt32(bitPattern: latitude))
      writer.u32be(UInt32(bitPattern: longitude))
    case .place(let place, let eta):
      writer.u8(0x70 | eta & 0x0F)
      writer.append(place.prefix(7))
    }
    return writer.bytes
  }

  /// Converts degrees in decimal digits to millionths, truncated toward zero; nil if the text is not a number or
  /// exceeds `limit` degrees.
  public static func millionths(_ degrees: String, limit: Double) -> Int32? {
    guard degrees.utf8.allSatisfy({ "0123456789+-.eE".utf8.contains($0) }), let value = Double(degrees),
      abs(value) <= limit
    else { return nil }
    return Int32(value * 1_000_000)
  }
}
