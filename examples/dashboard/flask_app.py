"""hooklane's dashboard inside a Flask application, behind its own login: flask --app flask_app run"""

import os

from flask import Flask, redirect, session
from werkzeug.wrappers import Response

from hooklane.flask import dashboard

app = Flask(__name__)
app.secret_key = os.environ.get("APP_SECRET", "only for trying this out")


def is_operator() -> bool:
    """Your own login: with Flask-Login, `current_user.is_authenticated`."""
    return bool(session.get("operator"))


app.register_blueprint(
    dashboard(
        os.environ["HOOKLANE_DB"],
        may=is_operator,
        login_url="/login",
        playground=True,
        behind_proxy=True,
        egress_allow=["127.0.0.0/8"],
    ),
    url_prefix="/hooklane",
)


def customer_of() -> str | None:
    """Which tenant of hooklane this customer is, as your application knows it."""
    return session.get("customer")


app.register_blueprint(
    dashboard(
        os.environ["HOOKLANE_DB"],
        name="customers",
        may=customer_of,
        tenant=customer_of,
        login_url="/login",
        behind_proxy=True,
    ),
    url_prefix="/webhooks",
)


@app.get("/login")
def login() -> dict[str, str]:
    return {"please": "sign in"}


@app.post("/login")
def sign_in() -> Response:
    session["operator"] = True
    return redirect("/hooklane/", 303)


@app.post("/login/<customer>")
def sign_in_customer(customer: str) -> Response:
    session["customer"] = customer
    return redirect("/webhooks/", 303)
