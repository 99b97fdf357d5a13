import Crypto

/// Result of checking a packet's signature.
public struct SignatureCheck: Hashable, Sendable {
  /// Form of the payload that was signed; nil if the signature is invalid or missing.
  public let form: SignedForm?
  /// Number of signatures computed, 0 to 4, for limits on work.
  public let computed: Int

  /// Whether the signature is valid.
  public var isValid: Bool { form != nil }

  /// Checks the signature of a received packet.
  ///
  /// - Parameters:
  ///   - view: packet as received.
  ///   - packet: the decoded packet.
  ///   - key: signing key announced by the sender.
  ///   - checker: verifies signatures.
  public init(
    _ view: PacketView, decoded packet: Packet, key: Ed25519.PublicKey,
    by checker: some SignatureChecking = ComputedSignatures()
  ) {
    guard let signature = view.signature else {
      self.init(form: nil, computed: 0)
      return
    }
    var tried: [PayloadSection] = []
    for form in SignedForm.forms(of: packet) {
      let preimage: [UInt8]
      if form == .received {
        tried.append(PayloadSection(received: view))
        preimage = view.signingPreimage
      } else {
        // Equal forms, which every packet under 100 bytes has, are computed once.
        guard let section = PayloadSection(packet, as: form), !tried.contains(section),
          let made = try? packet.signingPreimage(section)
        else { continue }
        tried.append(section)
        preimage = made
      }
      if checker.holds(signature, of: preimage, by: key) {
        self.init(form: form, computed: tried.count)
        return
      }
    }
    self.init(form: nil, computed: tried.count)
  }

  private init(form: SignedForm?, computed: Int) {
    self.form = form
    self.computed = computed
  }
}

extension SignedForm {
  /// Length of a file, in bytes, up to which all forms are tried.
  private static let fileBytes = 64 << 10

  /// Forms to try, the likeliest first. A long file is always fragmented, and relays do not recompress fragments. It
  /// was therefore signed as received, or uncompressed. Deflating it to try others would take too long.
  fileprivate static func forms(of packet: Packet) -> [SignedForm] {
    guard packet.type == .fileTransfer else { return allCases }
    return packet.payload.count > fileBytes ? [.received, .plain] : [.received, .plain, .level6, .level5]
  }
}

extension PayloadSection {
  fileprivate init(received view: PacketView) {
    self.init(bytes: Array(view.section), isCompressed: view.flags.contains(.compressed))
  }

  /// Encodes the payload in a form; nil if an encoder would leave it plain.
  fileprivate init?(_ packet: Packet, as form: SignedForm) {
    switch form {
    case .level6: self.init(deflating: packet.payload, version: packet.version, level: 6)
    case .level5: self.init(deflating: packet.payload, version: packet.version, level: 5)
    case .received, .plain: self.init(plain: packet.payload)
    }
  }
}
