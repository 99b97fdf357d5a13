import Crypto

/// The answer to the question whether a packet's signature holds.
public struct SignatureCheck: Hashable, Sendable {
  /// The form of the payload that was signed; nil if the signature holds for none, or is missing.
  public let form: SignedForm?
  /// How many signatures were computed for it, 0 to 4: whoever limits work counts them.
  public let computed: Int

  /// Whether the signature holds.
  public var isValid: Bool { form != nil }

  /// Checks the signature of a packet that was received.
  ///
  /// - Parameters:
  ///   - view: the packet as it came.
  ///   - packet: the same, decoded.
  ///   - key: the signing key that the sender announced.
  ///   - checker: who says whether a signature holds.
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
        // Forms that are alike, as they are for every packet of under 100 bytes, are computed once.
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
  /// Up to so many bytes of a file all forms are tried.
  private static let fileBytes = 64 << 10

  /// The forms to try, the likeliest first. A long file only ever goes in fragments, which nobody compresses anew: it comes as
  /// it was signed, or was not compressed when that was done. Deflating it to see would hold everything up.
  fileprivate static func forms(of packet: Packet) -> [SignedForm] {
    guard packet.type == .fileTransfer else { return allCases }
    return packet.payload.count > fileBytes ? [.received, .plain] : [.received, .plain, .level6, .level5]
  }
}

extension PayloadSection {
  fileprivate init(received view: PacketView) {
    self.init(bytes: Array(view.section), isCompressed: view.flags.contains(.compressed))
  }

  /// The payload in a form that an encoder would give it; nil where it would leave it as it is.
  fileprivate init?(_ packet: Packet, as form: SignedForm) {
    switch form {
    case .level6: self.init(deflating: packet.payload, version: packet.version, level: 6)
    case .level5: self.init(deflating: packet.payload, version: packet.version, level: 5)
    case .received, .plain: self.init(plain: packet.payload)
    }
  }
}
