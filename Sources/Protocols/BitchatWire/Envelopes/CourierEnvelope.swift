import Bytes
import Common
import Crypto
import Noise

/// Payload of a courier packet: a message sealed for a peer that is out of range. Records have one byte of type and two
/// of length, in any order; unknown types are skipped. Facts: bitchat.md section 8.5. Layout:
///
///     01  `CourierTag` of the recipient, 16 bytes
///     02  expiry, milliseconds since 1970, 8 bytes
///     03  message of the Noise pattern X, up to 16 KiB
///     04  copies that may still be made, 1 byte; default 1
///     05  ID of the recipient's prekey, 4 bytes; if absent, the envelope is sealed for the Noise key
///
/// Only record 03 is authenticated: a courier can change the others.
public struct CourierEnvelope: WireValue, Hashable, Sendable {
  /// Maximum length of the ciphertext, in bytes.
  public static let ciphertextLimit = 16 << 10
  /// Maximum lifetime of an envelope, in milliseconds.
  public static let lifetime: UInt64 = 24 * 3600 * 1000
  /// Tolerated difference between the clocks of couriers, in milliseconds.
  public static let slack: UInt64 = 3600 * 1000
  /// Number of copies that this node allows for a new envelope of its own.
  public static let firstCopies: UInt8 = 4
  /// Maximum number of copies that is honoured in an envelope of another node.
  public static let mostCopies: UInt8 = 8

  public let tag: CourierTag
  /// Expiry of the envelope, in milliseconds since 1970.
  public let expiry: UInt64
  public let ciphertext: [UInt8]
  /// Copies as written in the envelope; `allowedCopies` has the value that counts.
  public var copies: UInt8
  public let prekey: UInt32?

  /// Throws `badValue` for an empty ciphertext, and `tooLong` for one over 16 KiB.
  public init(
    tag: CourierTag, expiry: UInt64, ciphertext: [UInt8], copies: UInt8 = firstCopies, prekey: UInt32? = nil
  ) throws(WireError) {
    guard !ciphertext.isEmpty else { throw .badValue("ciphertext") }
    guard ciphertext.count <= Self.ciphertextLimit else {
      throw .tooLong(field: "ciphertext", limit: Self.ciphertextLimit)
    }
    self.tag = tag
    self.expiry = expiry
    self.ciphertext = ciphertext
    self.copies = copies
    self.prekey = prekey
  }

  /// Copies that may still be made, this one included, limited to 1 to 8.
  public var allowedCopies: UInt8 { min(max(1, copies), Self.mostCopies) }

  /// Returns the envelope with another number of copies.
  public func with(copies: UInt8) -> CourierEnvelope {
    var envelope = self
    envelope.copies = copies
    return envelope
  }

  /// Reads the records to the end. The last record of a repeated type counts.
  ///
  /// Throws `badValue` with the name of a record that is missing or has the wrong length.
  public init(reading reader: inout ByteReader) throws(WireError) {
    var tag: CourierTag?
    var expiry: UInt64?
    var ciphertext: ArraySlice<UInt8> = []
    var copies: UInt8 = 1
    var prekey: UInt32?
    let records = try TLV.all(in: reader.rest(), length: .u16be, limit: Self.ciphertextLimit, maximumCount: 16)
    for record in records {
      var value = ByteReader(record.value)
      switch record.type {
      case 0x01:
        guard let read = CourierTag(record.value) else { throw .badValue("tag") }
        tag = read
      case 0x02:
        guard record.value.count == 8 else { throw .badValue("expiry") }
        expiry = try value.u64be()
      case 0x03: ciphertext = record.value
      case 0x04:
        guard record.value.count == 1 else { throw .badValue("copies") }
        copies = try value.u8()
      case 0x05:
        guard record.value.count == 4 else { throw .badValue("prekey") }
        prekey = try value.u32be()
      default: continue
      }
    }
    guard let tag else { throw .badValue("tag") }
    guard let expiry else { throw .badValue("expiry") }
    try self.init(tag: tag, expiry: expiry, ciphertext: Array(ciphertext), copies: copies, prekey: prekey)
  }

  public func write(to writer: inout ByteWriter) {
    Self.write(0x01, tag.bytes, to: &writer)
    Self.write(0x02, withUnsafeBytes(of: expiry.bigEndian, Array.init), to: &writer)
    Self.write(0x03, ciphertext, to: &writer)
    if copies != 1 { Self.write(0x04, [copies], to: &writer) }
    if let prekey { Self.write(0x05, withUnsafeBytes(of: prekey.bigEndian, Array.init), to: &writer) }
  }

  /// Writes a record. `init` has checked its length.
  private static func write(_ type: UInt8, _ value: [UInt8], to writer: inout ByteWriter) {
    writer.u8(type)
    writer.u16be(UInt16(clamping: value.count))
    writer.append(value)
  }
}

/// Identifies an envelope regardless of its copies: the first 16 bytes of the SHA-256 of its records with one copy. If
/// a courier changes the tag, the ID differs, so a forged envelope does not block the real one.
public struct CourierID: Hashable, Sendable, Comparable {
  package let high: UInt64
  package let low: UInt64

  package init(of envelope: CourierEnvelope) {
    let words = envelope.with(copies: 1).bytes.withUnsafeBytes { SHA256.words($0) }
    (high, low) = (words.first, words.second)
  }

  public static func < (left: CourierID, right: CourierID) -> Bool { (left.high, left.low) < (right.high, right.low) }
}

extension CourierEnvelope {
  private static let prologue = Array("bitchat-courier-v1".utf8)

  /// Reason why an envelope for this node cannot be read.
  package enum OpeningError: Error, Hashable, Sendable {
    /// The envelope is sealed for a prekey, which this node does not support.
    case prekey
    /// The envelope is not sealed for this node, or was changed.
    case notOpened
    /// The payload is not a valid Noise payload.
    case unreadable(NoisePayloadError)
  }

  /// Seals a payload for the owner of a Noise key, with the tag of the day of `time`.
  ///
  /// - Parameters:
  ///   - time: milliseconds since 1970.
  ///   - expiry: milliseconds since 1970; limited to one day after `time`.
  /// - Throws: `badValue` for an invalid recipient key, and `tooLong`.
  package init(
    sealing payload: NoisePayload, for recipient: X25519.PublicKey, from key: X25519.PrivateKey, at time: UInt64,
    expiry: UInt64, randomFrom random: inout some RandomSource
  ) throws(WireError) {
    let sealed: [UInt8]
    do throws(NoiseError) {
      sealed = try OneWayMessage.seal(
        payload.bytes, to: recipient, from: key, prologue: Self.prologue, randomFrom: &random)
    } catch {
      throw .badValue("recipient")
    }
    try self.init(
      tag: CourierTag(for: recipient, day: CourierTag.day(of: time)), expiry: min(expiry, time &+ Self.lifetime),
      ciphertext: sealed)
  }

  /// Opens the envelope. Returns the payload and the Noise key of the sender.
  package func open(with key: X25519.PrivateKey) throws(OpeningError) -> (
    payload: NoisePayload, sender: X25519.PublicKey
  ) {
    guard prekey == nil else { throw .prekey }
    let opened: (text: [UInt8], sender: X25519.PublicKey)
    do throws(NoiseError) {
      opened = try OneWayMessage.open(ciphertext, with: key, prologue: Self.prologue)
    } catch {
      throw .notOpened
    }
    do throws(NoisePayloadError) {
      return (try NoisePayload(reading: opened.text), opened.sender)
    } catch {
      throw .unreadable(error)
    }
  }
}

/// Names the recipient of an envelope to peers that know its Noise key. First 16 bytes of HMAC-SHA256(Noise key,
/// "bitchat-courier-tag-v1" and the day in four bytes, big endian). Facts: bitchat.md section 8.5.
///
/// The tag changes daily. A courier cannot link it to a peer before that peer announces itself.
public struct CourierTag: Hashable, Sendable {
  public static let size = 16

  /// The 16 bytes of the tag.
  public let bytes: [UInt8]

  /// Computes the tag of the owner of `key` on a day.
  ///
  /// - Parameter day: days since 1970.
  public init(for key: X25519.PublicKey, day: UInt32) {
    let message = Array("bitchat-courier-tag-v1".utf8) + withUnsafeBytes(of: day.bigEndian, Array.init)
    bytes = Array(HMACSHA256.authenticationCode(for: message, key: key.bytes).prefix(Self.size))
  }

  /// Reads a tag. Nil if it is not 16 bytes long.
  package init?(_ bytes: some Collection<UInt8>) {
    guard bytes.count == Self.size else { return nil }
    self.bytes = Array(bytes)
  }

  /// Day of a time in milliseconds since 1970.
  public static func day(of time: UInt64) -> UInt32 { UInt32(clamping: time / 86_400_000) }

  /// Tags of the owner of `key` for yesterday, today and tomorrow, because clocks differ and envelopes travel.
  ///
  /// - Parameter time: milliseconds since 1970.
  public static func near(_ time: UInt64, for key: X25519.PublicKey) -> [CourierTag] {
    let today = day(of: time)
    return [today == 0 ? today : today - 1, today, today == .max ? today : today + 1].map {
      CourierTag(for: key, day: $0)
    }
  }
}
