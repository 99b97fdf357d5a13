/// A self-signed certificate for `localhost`, `social.test`, 127.0.0.1 and ::1, valid until 2126, and its key. It was
/// made for these tests, and protects nothing.
public struct TestCertificate: Sendable {
  public let chain: String
  public let key: String

  public static let first = TestCertificate(
    chain: """
      -----BEGIN CERTIFICATE-----
      MIIByjCCAXCgAwIBAgIUXGDZ5vzp7bu56Du2sk4QWYvK0O4wCgYIKoZIzj0EAwIw
      GzEZMBcGA1UEAwwQZWFyc2hvdCB0ZXN0IG9uZTAgFw0yNjExMzAwMTU2MjVaGA8y
      MTI2MTEwNjAxNTYyNVowGzEZMBcGA1UEAwwQZWFyc2hvdCB0ZXN0IG9uZTBZMBMG
      ByqGSM49AgEGCCqGSM49AwEHA0IABMWLAYwZ3b+M3yqkVuXaSO3eN7ivYoif03C4
      t/W0xOnk80s0f42DpByBPS7nCqRAduRcW0qiJeBW3xeqX9+rVtyjgY8wgYwwHQYD
      VR0OBBYEFGcXeoiww+ffKlwt5TsG8pRRLPwOMB8GA1UdIwQYMBaAFGcXeoiww+ff
      Klwt5TsG8pRRLPwOMA8GA1UdEwEB/wQFMAMBAf8wOQYDVR0RBDIwMIIJbG9jYWxo
      b3N0ggtzb2NpYWwudGVzdIcEfwAAAYcQAAAAAAAAAAAAAAAAAAAAATAKBggqhkjO
      PQQDAgNIADBFAiEAx3o0EAg3Ud+UNDTba4CH62X9HS8YFue7j3ri6t94X9ACIAxN
      IM8G5Y5UIwaaSjlTsxtOOIaaRtEUiqYxwxyW7qoI
      -----END CERTIFICATE-----
      """,
    key: """
      -----BEGIN PRIVATE KEY-----
      MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg02uR2oVlOwrI3STa
      WWmLMKPrK0sDg96+FPSaAUIp2KGhRANCAATFiwGMGd2/jN8qpFbl2kjt3je4r2KI
      n9NwuLf1tMTp5PNLNH+Ng6QcgT0u5wqkQHbkXFtKoiXgVt8Xql/fq1bc
      -----END PRIVATE KEY-----
      """)

  public static let second = TestCertificate(
    chain: """
      -----BEGIN CERTIFICATE-----
      MIIByjCCAXCgAwIBAgIUahvm6WAnnP9+M0sQa1Dyu2pQemcwCgYIKoZIzj0EAwIw
      GzEZMBcGA1UEAwwQZWFyc2hvdCB0ZXN0IHR3bzAgFw0yNjExMzAwMTU2MjVaGA8y
      MTI2MTEwNjAxNTYyNVowGzEZMBcGA1UEAwwQZWFyc2hvdCB0ZXN0IHR3bzBZMBMG
      ByqGSM49AgEGCCqGSM49AwEHA0IABHyRKV2Xant8GIJdWeeiahy1D+dkzIFQLyA1
      DYkCa5i9Tqbteq3pJGWoFUbknH/l74EUmVarXz3I616QS3415dmjgY8wgYwwHQYD
      VR0OBBYEFN/OebH5gUlFkd/oYaMv/sympL6BMB8GA1UdIwQYMBaAFN/OebH5gUlF
      kd/oYaMv/sympL6BMA8GA1UdEwEB/wQFMAMBAf8wOQYDVR0RBDIwMIIJbG9jYWxo
      b3N0ggtzb2NpYWwudGVzdIcEfwAAAYcQAAAAAAAAAAAAAAAAAAAAATAKBggqhkjO
      PQQDAgNIADBFAiEAiW9AGF/Nc23MH/GDX9SejzW/Ccug7ySM6q4EWF5b4FgCIAc/
      QRlPCNP6XS/WWiuESav02aKx4FlBM61pGKy2Sdfn
      -----END CERTIFICATE-----
      """,
    key: """
      -----BEGIN PRIVATE KEY-----
      MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgFMRw2Iijxs6e98iT
      rpwiriUE45DHz0xoQpb2sr6hNxahRANCAAR8kSldl2p7fBiCXVnnomoctQ/nZMyB
      UC8gNQ2JAmuYvU6m7Xqt6SRlqBVG5Jx/5e+BFJlWq189yOtekEt+NeXZ
      -----END PRIVATE KEY-----
      """)
}
