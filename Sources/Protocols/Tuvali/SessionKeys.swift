import Bytes
import Compression
import Crypto

/// Key for the wallet's messages, derived by both sides from the key exchange, and the wallet's nonce.
///
/// HKDF-SHA-256 over the raw shared secret, salt "SHA-256", info "SKVerifier" (a sender uses the receiver's key; the
/// other direction's key is never used). Facts: tuvali.md section 4.
public struct SessionKeys: Sendable {
  /// Receiver of messages encrypted with a key.
  public enum Receiver: String, CaseIterable, Sendable {
    case verifier = "SKVerifier"
    case wallet = "SKWallet"
  }

  private let key: SecretBytes
  private let nonce: [UInt8]

  /// - Throws: `CryptoError.weakKey` if the peer's key makes the secret all zero.
  public init(
    own: X25519.PrivateKey, peer: X25519.PublicKey, nonce: [UInt8], receiver: Receiver = .verifier
  ) throws(CryptoError) {
    let secret = try own.sharedSecret(with: peer)
    key = try HKDF.sha256(
      secret: secret, salt: Array("SHA-256".utf8), info: Array(receiver.rawValue.utf8), count: 32)
    self.nonce = nonce
  }

  /// Encrypts `text` to a frame: gzip, then AES-256-GCM; ciphertext, followed by the 16-byte tag.
  func seal(_ text: [UInt8]) throws(TuvaliError) -> [UInt8] {
    do {
      return try AESGCM.seal(try Gzip.compress(text), key: key, nonce: nonce)
    } catch {
      throw TuvaliError(.walletUnknown, .invalidArgument, "The credential could not be compressed and encrypted.")
    }
  }

  /// Decrypts `frame` to UTF-8 text of at most `limit` bytes.
  ///
  /// - Throws: TVV_UNK_003 if the frame cannot be decrypted (with reason `wrongCode`), cannot be inflated, is too large
  ///   or is not UTF-8.
  func open(_ frame: [UInt8], limit: Int) throws(TuvaliError) -> [UInt8] {
    let compressed: [UInt8]
    do throws(CryptoError) {
      compressed = try AESGCM.open(frame, key: key, nonce: nonce)
    } catch {
      throw .wrongCode
    }
    let text: [UInt8]
    do throws(CompressionError) {
      text = try Gzip.decompress(compressed, limit: limit)
    } catch .tooLarge(let limit) {
      throw TuvaliError(
        .verifierTransfer, .limitExceeded, "The credential is larger than the limit of \(limit) bytes.")
    } catch {
      throw TuvaliError(.verifierTransfer, .protocolViolation, "The wallet's decrypted data is not gzip: \(error).")
    }
    guard !text.isEmpty, UTF8Text.isValid(text) else {
      throw TuvaliError(.verifierTransfer, .protocolViolation, "The wallet's decrypted data is not UTF-8 text.")
    }
    return text
  }
}

/// Decryption of a received frame, a long computation for a worker thread.
public struct Unsealing: Sendable {
  let frame: [UInt8]
  /// Session keys for each code that the wallet may have scanned.
  let keys: [SessionKeys]
  let limit: Int

  /// Returns the credential's text in UTF-8.
  public func run() -> Result<[UInt8], TuvaliError> {
    for keys in keys {
      do throws(TuvaliError) {
        return .success(try keys.open(frame, limit: limit))
      } catch {
        if error.reason != .wrongCode { return .failure(error) }
      }
    }
    return .failure(.wrongCode)
  }
}

extension TuvaliError {
  static let wrongCode = TuvaliError(
    .verifierTransfer, .wrongCode, "The credential was encrypted for another code. Scan the code that is shown now.")
}

/// Compression and encryption of a credential, a long computation for a worker thread.
public struct Sealing: Sendable {
  let text: [UInt8]
  let keys: SessionKeys

  public init(text: [UInt8], keys: SessionKeys) {
    self.text = text
    self.keys = keys
  }

  /// Returns the frame, which is sent in chunks.
  public func run() -> Result<[UInt8], TuvaliError> {
    Result { () throws(TuvaliError) in try keys.seal(text) }
  }
}

// Descriptions contain neither the credential nor the frame.
extension Unsealing: CustomStringConvertible, CustomReflectable {
  public var description: String { "<frame of \(frame.count) bytes>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Sealing: CustomStringConvertible, CustomReflectable {
  public var description: String { "<credential of \(text.count) bytes>" }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
