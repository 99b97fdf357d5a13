import Bitchat
import BitchatWire
import Bytes
import Crypto

/// Content of a row before sealing. Layout, numbers big endian, `1+n` is a field with a length prefix of one byte:
///
///     1  version, 1
///     1  kind
///        1 identity   32 Noise key, 32 seed of the signing key
///        2 nickname   1+n
///        3 number     4: the highest of a message
///        4 pin        8 peer, 32 signing key; 1 if the peer has proven it
///        5 peer       8 peer, 1 marks, 8 seen at, 1+n Noise key (0 or 32), 1+n nickname; earlier releases end here;
///                     1 contacts, 1+n nickname when it was verified, 1 held names: of each 1+n;
///                     1+n key for the uplink, if it has one; 8 time of its latest favourite notice, if both are known
///        6 outgoing   4 number, 8 peer, 8 made at, 2 tries, 2 pieces: of each 1 state, 1+n ID, 2+n text;
///                     1+n Noise key (0 or 32), 1 couriers: of each 8; earlier releases end before the Noise key;
///                     1, where its date may be wrong
///        7 gossip     the packet, if the device that delivered it is unknown
///        8 message    4 number, 8 time, 1 state (with 80 where its read receipt is owed, and 40 where it went or came
///                     over the uplink), 8 sender, 1+n conversation (0 or 8),
///                     1+n packet (0 or 16), 1+n nickname, 2 IDs: of each 1+n; 4+n text; 4 mark of the device that delivered it, if known
///        9 carried    8 depositor, 1 favourite, 8 time, 1 given to: of each 8; 2+n envelope; 4 mark of the device that delivered it,
///                     if known
///        10 gossip    4 mark of the device that delivered it, the packet
///        20 file      4 number, 8 time, 8 sender, 4 size, 8 place, 1+n packet (0 or 16), 1+n nickname, 1+n name, 1+n MIME type,
///                     1+n receipt (0 for a public one)
///        21 deleted   4 number of a file, 8 time, 8 sender, 1+n packet (0 or 16), 1+n receipt (0 for a public one)
///        22 erased    as `ErasedTraces` writes it
///        23 uplink    1+n: this node's key for the uplink
enum MeshRecord: Sendable {
  case identity(MeshEngine.Identity)
  case nickname(String)
  case number(UInt32)
  case pin(PeerID, Ed25519.PublicKey, isProven: Bool = false)
  case peer(PeerMarks)
  case outgoing(OutgoingMessage)
  case gossip(GossipArchive.Item)
  case message(MeshMessage)
  case carried(CarriedEnvelope)
  case erased(ErasedTraces)
  case file(MeshFile)
  case deleted(DeletedFile)
  case uplinkKey(String)

  static let version: UInt8 = 1

  private enum Kind: UInt8 {
    case identity = 1
    case nickname, number, pin, peer, outgoing, gossip, message, carried, markedGossip
    case file = 20
    case deleted, erased, uplinkKey
  }

  // MARK: Reading

  /// Decodes a record. Throws `badValue("version")` for another version, and other errors for malformed records.
  init(reading bytes: [UInt8]) throws(WireError) {
    var reader = ByteReader(bytes)
    guard try reader.u8() == Self.version else { throw .badValue("version") }
    guard let kind = Kind(rawValue: try reader.u8()) else { throw .badValue("kind") }
    switch kind {
    case .identity: self = .identity(try Self.identity(&reader))
    case .nickname: self = .nickname(try reader.shortText("nickname"))
    case .number: self = .number(try reader.u32be())
    case .pin:
      let (peer, key) = (try PeerID(reading: &reader), try Self.key { try Ed25519.PublicKey(reader.bytes(32)) })
      let isProven = !reader.isAtEnd
      if isProven, try reader.u8() != 1 { throw .badValue("proof") }
      self = .pin(peer, key, isProven: isProven)
    case .peer: self = .peer(try PeerMarks(readingRecord: &reader))
    case .outgoing: self = .outgoing(try OutgoingMessage(readingRecord: &reader))
    case .gossip:
      guard let item = GossipArchive.Item(bytes: Array(reader.rest())) else { throw .badValue("packet") }
      self = .gossip(item)
    case .markedGossip:
      let via = try reader.u32be()
      guard let item = GossipArchive.Item(bytes: Array(reader.rest()), via: via) else { throw .badValue("packet") }
      self = .gossip(item)
    case .message: self = .message(try MeshMessage(readingRecord: &reader))
    case .carried: self = .carried(try CarriedEnvelope(readingRecord: &reader))
    case .erased: self = .erased(try ErasedTraces(reading: &reader))
    case .file: self = .file(try MeshFile(readingRecord: &reader))
    case .deleted: self = .deleted(try DeletedFile(readingRecord: &reader))
    case .uplinkKey: self = .uplinkKey(try reader.shortText("key for the uplink"))
    }
    try reader.finish()
  }

  private static func identity(_ reader: inout ByteReader) throws(WireError) -> MeshEngine.Identity {
    let (noise, signing) = (try reader.bytes(32), try reader.bytes(32))
    return MeshEngine.Identity(
      noiseKey: try key { try X25519.PrivateKey(copying: noise) },
      signingKey: try key { try Ed25519.PrivateKey(copyingSeed: signing) })
  }

  /// Calls `body` to decode a key; throws `badValue("key")` if it fails.
  static func key<Key>(_ body: () throws -> Key) throws(WireError) -> Key {
    guard let key = try? body() else { throw .badValue("key") }
    return key
  }

  // MARK: Writing

  /// Encodes the record. Throws `tooLong` for a text or a list that exceeds its field.
  func bytes() throws(WireError) -> [UInt8] {
    var writer = ByteWriter(capacity: 128)
    writer.u8(Self.version)
    writer.u8(kind.rawValue)
    switch self {
    case .identity(let identity):
      identity.noiseKey.secret.withUnsafeBytes { writer.append($0) }
      identity.signingKey.seed.withUnsafeBytes { writer.append($0) }
    case .nickname(let nickname): try writer.short(nickname.utf8, "nickname")
    case .number(let number): writer.u32be(number)
    case .pin(let peer, let key, let isProven):
      peer.write(to: &writer)
      writer.append(key.bytes)
      if isProven { writer.u8(1) }
    case .peer(let marks): try marks.writeRecord(to: &writer)
    case .outgoing(let message): try message.writeRecord(to: &writer)
    case .gossip(let item):
      if let via = item.via { writer.u32be(via) }
      writer.append(item.bytes)
    case .message(let message): try message.writeRecord(to: &writer)
    case .carried(let envelope): try envelope.writeRecord(to: &writer)
    case .erased(let traces): traces.write(to: &writer)
    case .file(let file): try file.writeRecord(to: &writer)
    case .deleted(let file): try file.writeRecord(to: &writer)
    case .uplinkKey(let key): try writer.short(key.utf8, "key for the uplink")
    }
    return writer.bytes
  }

  private var kind: Kind {
    switch self {
    case .identity: .identity
    case .nickname: .nickname
    case .number: .number
    case .pin: .pin
    case .peer: .peer
    case .outgoing: .outgoing
    case .gossip(let item): item.via == nil ? .gossip : .markedGossip
    case .message: .message
    case .carried: .carried
    case .erased: .erased
    case .file: .file
    case .deleted: .deleted
    case .uplinkKey: .uplinkKey
    }
  }
}

extension PeerMarks {
  fileprivate init(readingRecord reader: inout ByteReader) throws(WireError) {
    self.init(peer: try PeerID(reading: &reader), seenAt: 0)
    let marks = try reader.u8()
    guard marks < 32 else { throw .badValue("marks") }
    (isFavourite, isBlocked) = (marks & 1 != 0, marks & 2 != 0)
    (isVerified, isFavouriteOfPeer) = (marks & 4 != 0, marks & 8 != 0)
    isNoticeOwed = marks & 16 != 0
    seenAt = try reader.u64be()
    let key = try reader.short()
    noiseKey = key.isEmpty ? nil : try MeshRecord.key { try X25519.PublicKey(key) }
    nickname = try reader.shortText("nickname")
    guard !reader.isAtEnd else { return }
    contacts = Contacts(rawValue: try reader.u8())
    guard Contacts.all.isSuperset(of: contacts) else { throw .badValue("contacts") }
    verifiedName = try reader.shortText("name when verified")
    let count = try reader.u8()
    guard count <= Self.nicknameHistoryLimit else { throw .badValue("held names") }
    for _ in 0..<count { nicknameHistory.append(try reader.shortText("held name")) }
    guard !reader.isAtEnd else { return }
    uplinkKey = try reader.shortText("key for the uplink")
    guard !uplinkKey.isEmpty else { throw .badValue("key for the uplink") }
    guard !reader.isAtEnd else { return }
    noticedAt = try reader.u64be()
    guard noticedAt > 0 else { throw .badValue("time of the notice") }
  }

  fileprivate func writeRecord(to writer: inout ByteWriter) throws(WireError) {
    peer.write(to: &writer)
    writer.u8(
      (isFavourite ? 1 : 0) | (isBlocked ? 2 : 0) | (isVerified ? 4 : 0) | (isFavouriteOfPeer ? 8 : 0)
        | (isNoticeOwed ? 16 : 0))
    writer.u64be(seenAt)
    try writer.short(noiseKey?.bytes ?? [], "Noise key")
    try writer.short(nickname.utf8, "nickname")
    writer.u8(contacts.rawValue)
    try writer.short(verifiedName.utf8, "name when verified")
    let held = nicknameHistory.suffix(Self.nicknameHistoryLimit)
    writer.u8(UInt8(held.count))
    for name in held { try writer.short(name.utf8, "held name") }
    guard !uplinkKey.isEmpty else { return }
    try writer.short(uplinkKey.utf8, "key for the uplink")
    if noticedAt > 0 { writer.u64be(noticedAt) }
  }
}

extension OutgoingMessage {
  fileprivate init(readingRecord reader: inout ByteReader) throws(WireError) {
    let number = try reader.u32be()
    let peer = try PeerID(reading: &reader)
    let createdAt = try reader.u64be()
    let tries = try reader.u16be()
    let count = try reader.u16be()
    guard count > 0 else { throw .badValue("pieces") }
    var pieces: [Piece] = []
    for _ in 0..<count {
      let state = try reader.u8()
      guard state < 4 else { throw .badValue("state") }
      let id = try MessageID(try reader.shortText("ID"))
      let text = try reader.text(Int(try reader.u16be()), "text")
      pieces.append(Piece(id: id, text: text, isDelivered: state & 1 != 0, isRead: state & 2 != 0))
    }
    guard !reader.isAtEnd else {
      self.init(number: number, peer: peer, pieces: pieces, createdAt: createdAt, tries: Int(tries))
      return
    }
    let key = try reader.short()
    let couriers = try reader.peers()
    let isDated = reader.isAtEnd
    if !isDated, try reader.u8() != 1 { throw .badValue("date") }
    self.init(
      number: number, peer: peer, pieces: pieces, createdAt: createdAt, tries: Int(tries),
      noiseKey: key.isEmpty ? nil : try MeshRecord.key { try X25519.PublicKey(key) }, couriers: couriers,
      isDated: isDated)
  }

  fileprivate func writeRecord(to writer: inout ByteWriter) throws(WireError) {
    writer.u32be(number)
    peer.write(to: &writer)
    writer.u64be(createdAt)
    writer.u16be(UInt16(clamping: tries))
    guard let count = UInt16(exactly: pieces.count) else { throw .tooLong(field: "pieces", limit: Int(UInt16.max)) }
    writer.u16be(count)
    for piece in pieces {
      writer.u8((piece.isDelivered ? 1 : 0) | (piece.isRead ? 2 : 0))
      try writer.short(piece.id.text.utf8, "ID")
      try writer.lengthPrefixed(UInt16.self, field: "text") { (writer) in writer.append(piece.text.utf8) }
    }
    try writer.short(noiseKey?.bytes ?? [], "Noise key")
    try writer.peers(couriers, "couriers")
    if !isDated { writer.u8(1) }
  }
}

extension MeshMessage {
  fileprivate init(readingRecord reader: inout ByteReader) throws(WireError) {
    let number = try reader.u32be()
    let time = try reader.u64be()
    let mark = try reader.u8()
    guard let state = State(rawValue: mark & 0x3F) else { throw .badValue("state") }
    let sender = try PeerID(reading: &reader)
    let conversation: PeerID? = try reader.optional()
    let packet: PacketID? = try reader.optional()
    let nickname = try reader.shortText("nickname")
    var ids: [MessageID] = []
    for _ in 0..<(try reader.u16be()) { ids.append(try MessageID(try reader.shortText("ID"))) }
    let text = try reader.text(Int(try reader.u32be()), "text")
    let via = reader.isAtEnd ? nil : try reader.u32be()
    self.init(
      number: number, time: time, conversation: conversation, sender: sender, nickname: nickname, text: text,
      messageIDs: ids, packet: packet, state: state, via: via)
    isReceiptOwed = mark & 0x80 != 0
    if mark & 0x40 != 0 { way = .uplink }
  }

  fileprivate func writeRecord(to writer: inout ByteWriter) throws(WireError) {
    writer.u32be(number)
    writer.u64be(time)
    writer.u8(state.rawValue | (isReceiptOwed ? 0x80 : 0) | (way == .uplink ? 0x40 : 0))
    sender.write(to: &writer)
    try writer.short(conversation?.bytes ?? [], "conversation")
    try writer.short(packet?.bytes ?? [], "packet")
    try writer.short(nickname.utf8, "nickname")
    guard let count = UInt16(exactly: messageIDs.count) else { throw .tooLong(field: "IDs", limit: Int(UInt16.max)) }
    writer.u16be(count)
    for id in messageIDs { try writer.short(id.text.utf8, "ID") }
    try writer.lengthPrefixed(UInt32.self, field: "text") { (writer) in writer.append(text.utf8) }
    if let via { writer.u32be(via) }
  }
}

extension CarriedEnvelope {
  fileprivate init(readingRecord reader: inout ByteReader) throws(WireError) {
    let depositor = try PeerID(reading: &reader)
    let isOfFavourite = try reader.u8()
    guard isOfFavourite < 2 else { throw .badValue("favourite") }
    let storedAt = try reader.u64be()
    let givenTo = try reader.peers()
    var inner = ByteReader(try reader.bytes(Int(try reader.u16be())))
    let envelope = try CourierEnvelope(reading: &inner)
    let via = reader.isAtEnd ? nil : try reader.u32be()
    self.init(
      envelope: envelope, depositor: depositor, isOfFavourite: isOfFavourite == 1,
      storedAt: storedAt, givenTo: givenTo, via: via)
  }

  fileprivate func writeRecord(to writer: inout ByteWriter) throws(WireError) {
    depositor.write(to: &writer)
    writer.u8(isOfFavourite ? 1 : 0)
    writer.u64be(storedAt)
    try writer.peers(givenTo, "given to")
    try writer.lengthPrefixed(UInt16.self, field: "envelope") { (writer) in writer.append(envelope.bytes) }
    if let via { writer.u32be(via) }
  }
}

extension MeshFile {
  fileprivate init(readingRecord reader: inout ByteReader) throws(WireError) {
    let number = try reader.u32be()
    let time = try reader.u64be()
    let sender = try PeerID(reading: &reader)
    let size = Int(try reader.u32be())
    guard (1...Limits.fileBytes).contains(size) else { throw .badValue("size") }
    let place = try reader.u64be()
    let packet: PacketID? = try reader.optional()
    let (nickname, name) = (try reader.shortText("nickname"), try reader.shortText("name"))
    let mime = try reader.shortText("MIME type")
    self.init(
      number: number, time: time, sender: sender, nickname: nickname, name: name, mime: mime, size: size,
      packet: packet, receipt: try reader.receipt(), place: place)
  }

  fileprivate func writeRecord(to writer: inout ByteWriter) throws(WireError) {
    writer.u32be(number)
    writer.u64be(time)
    sender.write(to: &writer)
    writer.u32be(UInt32(clamping: size))
    writer.u64be(place)
    try writer.short(packet?.bytes ?? [], "packet")
    try writer.short(nickname.utf8, "nickname")
    try writer.short(name.utf8, "name")
    try writer.short(mime.utf8, "MIME type")
    try writer.short((receipt?.text ?? "").utf8, "receipt")
  }
}

extension DeletedFile {
  fileprivate init(readingRecord reader: inout ByteReader) throws(WireError) {
    let (number, time) = (try reader.u32be(), try reader.u64be())
    let sender = try PeerID(reading: &reader)
    let packet: PacketID? = try reader.optional()
    self.init(number: number, time: time, sender: sender, packet: packet, receipt: try reader.receipt())
  }

  fileprivate func writeRecord(to writer: inout ByteWriter) throws(WireError) {
    writer.u32be(number)
    writer.u64be(time)
    sender.write(to: &writer)
    try writer.short(packet?.bytes ?? [], "packet")
    try writer.short((receipt?.text ?? "").utf8, "receipt")
  }
}

extension ByteReader {
  /// Reads peer IDs with a count prefix of one byte.
  fileprivate mutating func peers() throws(WireError) -> [PeerID] {
    var peers: [PeerID] = []
    for _ in 0..<(try u8()) { peers.append(try PeerID(reading: &self)) }
    return peers
  }

  /// Reads bytes with a length prefix of one byte.
  fileprivate mutating func short() throws(WireError) -> ArraySlice<UInt8> { try bytes(Int(try u8())) }

  fileprivate mutating func shortText(_ field: String) throws(WireError) -> String { try text(Int(try u8()), field) }

  fileprivate mutating func text(_ count: Int, _ field: String) throws(WireError) -> String {
    guard let text = String(validating: try bytes(count), as: UTF8.self) else { throw .badValue(field) }
    return text
  }

  /// Reads the message ID of a receipt; nil if it is empty.
  fileprivate mutating func receipt() throws(WireError) -> MessageID? {
    let receipt = try shortText("receipt")
    return receipt.isEmpty ? nil : try MessageID(receipt)
  }

  /// Reads a structure with a length prefix of one byte; nil if the length is 0.
  fileprivate mutating func optional<Value: WireValue>() throws(WireError) -> Value? {
    var inner = ByteReader(try short())
    if inner.isAtEnd { return nil }
    let value = try Value(reading: &inner)
    try inner.finish()
    return value
  }
}

extension ByteWriter {
  fileprivate mutating func peers(_ peers: [PeerID], _ field: String) throws(WireError) {
    guard let count = UInt8(exactly: peers.count) else { throw .tooLong(field: field, limit: Int(UInt8.max)) }
    u8(count)
    for peer in peers { peer.write(to: &self) }
  }

  fileprivate mutating func short(_ value: some Collection<UInt8>, _ field: String) throws(WireError) {
    try lengthPrefixed(UInt8.self, field: field) { (writer) in writer.append(value) }
  }
}
