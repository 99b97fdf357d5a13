import Bytes
import Common
import Crypto

/// A characteristic of a Tuvali service. Facts: tuvali.md section 3.
public enum Characteristic: CaseIterable, Hashable, Sendable {
  /// Characteristics that the originals declare and never use.
  case requestSize, request
  /// Wallet to verifier: nonce and public key, `Identify`.
  case identify
  /// Wallet to verifier: size of the encrypted frame, `ResponseSize`.
  case responseSize
  /// The wallet writes one `Chunk` of the frame.
  case submitResponse
  /// Wallet to verifier: request for a report, `TransferReportRequest`.
  case transferReportRequest
  /// Verifier to wallet: missing chunks, `TransferReport`.
  case transferReportResponse
  /// The verifier notifies its verdict on the credential, a `VerificationStatus`.
  case verificationStatus
  /// The verifier asks the wallet to disconnect, with a `DisconnectRequest`.
  case disconnect

  /// Direction of the values of a characteristic.
  public enum Direction: Hashable, Sendable { case unused, toVerifier, toWallet }

  public var direction: Direction {
    switch self {
    case .requestSize, .request: .unused
    case .identify, .responseSize, .submitResponse, .transferReportRequest: .toVerifier
    case .transferReportResponse, .verificationStatus, .disconnect: .toWallet
    }
  }
}

/// Value of Identify: nonce and key of the wallet for this connection. Facts: tuvali.md section 3.
///
///     offset  size
///     0       12    AES-GCM nonce
///     12      32    X25519 public key of the wallet
///
/// Bytes after the first 44 are ignored, as in the originals.
public struct Identify: WireValue, Hashable, Sendable {
  /// Length of the value, in bytes.
  public static let size = nonceBytes + keyBytes

  static let nonceBytes = 12
  private static let keyBytes = 32

  /// Nonce of every AES-GCM message of this connection.
  public let nonce: [UInt8]
  /// Public key of the wallet, fresh for this connection.
  public let walletKey: X25519.PublicKey

  public init(nonce: [UInt8], walletKey: X25519.PublicKey) {
    self.nonce = nonce
    self.walletKey = walletKey
  }

  public init(reading reader: inout ByteReader) throws(WireError) {
    nonce = Array(try reader.bytes(Self.nonceBytes))
    let key = try reader.bytes(Self.keyBytes)
    do throws(CryptoError) {
      walletKey = try X25519.PublicKey(key)
    } catch {
      throw .badValue("walletKey")
    }
  }

  public func write(to writer: inout ByteWriter) {
    writer.append(nonce)
    writer.append(walletKey.bytes)
  }
}

/// Value of Disconnect, with which the verifier asks the wallet to end the link. Facts: tuvali.md section 3.
///
///     offset  size
///     0       1     1
public struct DisconnectRequest: WireValue, Hashable, Sendable {
  private static let code: UInt8 = 1

  public init() {}

  /// Decodes a request. Throws `badValue("request")` for any byte but 1, which wallets ignore.
  public init(reading reader: inout ByteReader) throws(WireError) {
    guard try reader.u8() == Self.code else { throw .badValue("request") }
  }

  public func write(to writer: inout ByteWriter) { writer.u8(Self.code) }
}

/// Value of Verification status: the verdict. Facts: tuvali.md section 3.
///
///     offset  size
///     0       1     0 accepted, 1 rejected
public enum VerificationStatus: UInt8, WireValue, CaseIterable, Sendable {
  case accepted = 0
  case rejected = 1

  public init(isAccepted: Bool) {
    self = isAccepted ? .accepted : .rejected
  }

  /// Decodes a status. Every byte but 0 is a rejection, as in Android.
  public init(reading reader: inout ByteReader) throws(WireError) {
    self = try reader.u8() == Self.accepted.rawValue ? .accepted : .rejected
  }

  public func write(to writer: inout ByteWriter) { writer.u8(rawValue) }
}
